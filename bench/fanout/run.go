package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rmatail/rmatail/bench"
	"github.com/rmatail/rmatail/bench/child"
)

// Result is what a benchmark found. Its keys are an interface.
type Result struct {
	Command     string            `json:"command,omitempty"`
	Environment bench.Environment `json:"environment"`
	Settings    Settings          `json:"settings"`
	Rows        []Row             `json:"rows"` // medians
	Absent      []Absent          `json:"absent,omitempty"`
	Floors      []Floor           `json:"floors,omitempty"`
	Claims      []bench.Claim     `json:"claims,omitempty"`
	Rounds      [][]Row           `json:"rounds"`
}

// Settings are those that the figures depend on.
type Settings struct {
	Seconds   float64 `json:"seconds"`
	WarmUp    float64 `json:"warm_up_seconds"`
	Grace     float64 `json:"grace_seconds"`
	Rounds    int     `json:"rounds"`
	Processes int     `json:"processes"` // of consumers, at most
}

// Absent is a program that was not measured.
type Absent struct {
	Program Program `json:"program"`
	Why     string  `json:"why"`
}

// session is a run.
type session struct {
	c       Config
	clock   clock
	servers map[Program]*server // of the round
	absent  map[Program]string
	cells   int // measured so far: each has a stream of its own
}

// Run measures all cells, so many times in turn. When ctx ends it stops within a
// cell.
func Run(ctx context.Context, c Config) (res *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	res = &Result{Environment: bench.ThisEnvironment(), Settings: Settings{Seconds: c.For.Seconds(), WarmUp: c.WarmUp.Seconds(),
		Grace: c.Grace.Seconds(), Rounds: c.Rounds, Processes: mostProcesses}}
	s := &session{c: c, clock: newClock(), absent: map[Program]string{}}
	for n := range c.Rounds {
		round, err := s.round(ctx, n)
		if err != nil {
			return nil, err
		}
		res.Rounds = append(res.Rounds, round)
	}
	for _, p := range c.Programs {
		if why, ok := s.absent[p]; ok {
			res.Absent = append(res.Absent, Absent{p, why})
		}
	}
	if res.Floors, err = floors(ctx, c); err != nil {
		return nil, err
	}
	res.Rows = summaries(res.Rounds)
	res.Claims = claims(res)
	res.Environment.End()
	return res, nil
}

// round measures every cell once, with servers that are new.
func (s *session) round(ctx context.Context, n int) (round []Row, err error) {
	s.servers = map[Program]*server{}
	defer func() {
		for _, srv := range s.servers {
			err = errors.Join(err, srv.stop())
		}
	}()
	for _, l := range s.c.cells() {
		if _, ok := s.absent[l.program]; ok {
			continue
		}
		srv, err := s.server(ctx, l.program)
		if errors.Is(err, errAbsent) {
			s.absent[l.program] = err.Error()
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("server of %s: %w", l.program, err)
		}
		row := s.row(ctx, srv, l)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if row.Failed != "" { // who knows in which state it is
			err := srv.stop()
			if s.drop(l.program); err != nil {
				row.Failed += "; " + err.Error()
			}
		}
		round = append(round, row)
		if s.c.Progress != nil {
			s.c.Progress(n+1, row)
		}
	}
	beyond(round)
	return round, nil
}

// family is the program whose server another one uses.
func family(p Program) Program {
	switch p {
	case TCP, Naive:
		return SHM
	case RedisGet:
		return RedisStreams
	}
	return p
}

// server returns the server of a program, which is started when it is needed first.
func (s *session) server(ctx context.Context, p Program) (*server, error) {
	if p == Plain { // it has one stream
		s.stop(p)
	}
	srv := s.servers[family(p)]
	if srv != nil {
		return srv, nil
	}
	srv, err := startServer(ctx, s.c, p)
	if err != nil {
		return nil, err
	}
	s.servers[family(p)] = srv
	return srv, nil
}

func (s *session) drop(p Program) { delete(s.servers, family(p)) }

func (s *session) stop(p Program) {
	if srv := s.servers[family(p)]; srv != nil {
		_ = srv.stop()
		s.drop(p)
	}
}

// cellTime bounds a cell beside what it measures.
const cellTime = 45 * time.Second

// row measures one cell. What goes wrong is in the row: a peer that cannot bear a
// load does not end the benchmark.
func (s *session) row(ctx context.Context, srv *server, l cell) Row {
	ctx, cancel := context.WithTimeout(ctx, cellTime+s.c.For+s.c.WarmUp+s.c.Grace)
	defer cancel()
	r := Row{Program: l.program, Workload: l.workload, Shards: l.shards, Consumers: l.consumers, Poll: float64(l.poll.Microseconds()) / 1e3}
	s.cells++
	t := &trial{c: s.c, clock: s.clock, server: srv, cell: l, stream: "f" + strconv.Itoa(s.cells)}
	f, err := t.run(ctx)
	if ended := t.end(); err == nil { // a part that failed says so again at its end
		err = ended
	}
	if err != nil {
		r.Failed = err.Error()
	}
	r.Figures = f
	return r
}

// trial is one measurement of a cell.
type trial struct {
	c      Config
	clock  clock
	server *server
	cell
	stream    string
	producer  *child.Process
	consumers []*child.Process
}

// start starts a part and tells it what to do.
func (t *trial) start(part Part, consumers int) (*child.Process, error) {
	p, err := child.Start(append(append([]string(nil), t.c.Part...), string(part))...)
	if err != nil {
		return nil, err
	}
	return p, send(p, spec{Program: t.program, Workload: t.workload, Addr: t.server.addr, Dir: t.server.dir, Socket: t.server.socket, Device: t.c.Device,
		Stream: t.stream, Shards: t.shards, Consumers: consumers, Poll: t.poll})
}

func send(p *child.Process, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.Send(string(b))
}

func receive(ctx context.Context, p *child.Process, patience time.Duration, to any) error {
	line, err := p.Line(ctx, patience)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), to); err != nil {
		return p.Failed(fmt.Errorf("line %.100q: %w", line, err))
	}
	return nil
}

// open starts the producer, which makes the stream, and then the consumers.
func (t *trial) open(ctx context.Context) (err error) {
	var ready up
	if t.producer, err = t.start(Produce, 0); err != nil {
		return err
	}
	if err := receive(ctx, t.producer, readyTime+startTime, &ready); err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	processes := processesOf(t.cell.consumers)
	for i := range processes {
		n := (t.cell.consumers + i) / processes
		p, err := t.start(Consume, n)
		if p != nil {
			t.consumers = append(t.consumers, p)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range t.consumers {
		if err := receive(ctx, p, readyTime+startTime, &ready); err != nil {
			return fmt.Errorf("consumers: %w", err)
		}
	}
	return nil
}

// costs are the processor times so far.
type costs struct{ server, producer, consumers time.Duration }

func (t *trial) costs() (c costs) {
	c.server, _ = t.server.cpu()
	c.producer, _ = t.producer.CPU()
	for _, p := range t.consumers {
		d, _ := p.CPU()
		c.consumers += d
	}
	return c
}

func (t *trial) run(ctx context.Context) (f Figures, err error) {
	if err := t.open(ctx); err != nil {
		return f, err
	}
	now := t.clock.now()
	w := window{From: now + int64(t.c.WarmUp), To: now + int64(t.c.WarmUp+t.c.For), Grace: int64(t.c.Grace)}
	for _, p := range append([]*child.Process{t.producer}, t.consumers...) {
		if err := send(p, w); err != nil {
			return f, err
		}
	}
	if err := pause(ctx, time.Duration(w.From-t.clock.now())); err != nil {
		return f, err
	}
	before := t.costs()
	if err := pause(ctx, time.Duration(w.To-t.clock.now())); err != nil {
		return f, err
	}
	after := t.costs()
	var made produced
	if err := receive(ctx, t.producer, readyTime+t.c.Grace, &made); err != nil {
		return f, fmt.Errorf("producer: %w", err)
	}
	times := newHistogram()
	var got consumed
	for _, p := range t.consumers {
		if err := send(p, expected{made.Records}); err != nil {
			return f, err
		}
	}
	for _, p := range t.consumers {
		var one consumed
		if err := receive(ctx, p, readyTime+t.c.Grace, &one); err != nil {
			return f, fmt.Errorf("consumers: %w", err)
		}
		got.Samples += one.Samples
		got.Bytes += one.Bytes
		got.Traffic = got.Traffic.add(one.Traffic)
		times.Merge(hdrhistogram.Import(one.Times))
	}
	return t.figures(made, got, times, before, after), nil
}

// figures are of the window. A record that had not come after the grace counts as
// having taken that long.
func (t *trial) figures(made produced, got consumed, times *hdrhistogram.Histogram, before, after costs) (f Figures) {
	seconds := t.c.For.Seconds()
	mb := float64(got.Bytes) / 1e6
	f.Produced = float64(made.Records) * float64(t.workload.record()) / 1e6 / seconds
	f.Late = float64(made.Late) / 1e6
	f.Server = milliseconds(after.server-before.server) / seconds
	f.Producer = milliseconds(after.producer-before.producer) / seconds
	if t.cell.consumers == 0 {
		return f
	}
	wanted := made.Records * int64(t.cell.consumers)
	f.Missing = float64(max(wanted-got.Samples, 0)) / float64(max(wanted, 1))
	if lost := wanted - got.Samples; lost > 0 {
		_ = times.RecordValues(min(int64(t.c.Grace), longest), lost)
	}
	ms := func(p float64) float64 { return float64(times.ValueAtPercentile(p)) / 1e6 }
	f.P50, f.P99, f.Max = ms(50), ms(99), ms(100)
	f.Delivered = mb / seconds
	if per := t.workload.perSecond(); per > 0 {
		f.Share = f.Delivered / (float64(per*t.workload.record()*t.cell.consumers) / 1e6)
	}
	if mb > 0 {
		f.ServerPerMB = milliseconds(after.server-before.server) / mb
		f.ClientPerMB = milliseconds(after.consumers-before.consumers) / mb
		f.Moved = float64(got.Traffic.Moved) / float64(got.Bytes)
		f.Requests = float64(got.Traffic.Requests) / float64(got.Bytes) * 1e3
		f.Durable = float64(got.Traffic.Durable) / float64(got.Bytes)
	}
	f.Traffic = got.Traffic
	return f
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// end stops the parts, consumers first: the producer removes the stream.
func (t *trial) end() error {
	var errs []error
	for _, p := range t.consumers {
		errs = append(errs, p.Stop())
	}
	if t.producer != nil {
		errs = append(errs, t.producer.Stop())
	}
	return errors.Join(errs...)
}
