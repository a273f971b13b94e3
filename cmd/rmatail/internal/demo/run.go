package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Config says what the demo does.
type Config struct {
	Input     string        // file; empty: a log of this host, or a generated one
	Consumers int           // processes
	Nodes     int           // processes; above 1 they are a cluster
	Kill      bool          // kill a node of the cluster in the middle, and restart it
	For       time.Duration // how long lines are appended
	Rate      int64         // bytes a second
	Policy    string        // of the nodes: always, interval or never
	Arena     string        // of each node
	Transport string        // of the consumers: auto, shm, rdma or tcp
	Listen    string        // of the node; of a cluster its host
	Device    string        // RDMA device of the consumers; empty: by route
	RDMA      string        // what is known about RDMA on this host, for the report
	Dir       string        // where everything is kept; empty: a temporary directory that is removed
	Command   string        // the rmatail binary
	// Progress is called about twice a second, from one goroutine.
	Progress func(Progress)
}

// Progress is the state of a run.
type Progress struct {
	Elapsed   time.Duration
	Appended  uint64
	Consumers []Snapshot
	PIDs      []int
	Nodes     int
	ServerCPU time.Duration // of all nodes
}

const (
	shardName     = "demo/0000"
	progressEvery = 500 * time.Millisecond
	startTime     = 20 * time.Second
	aloneTime     = time.Second // at most, of appending without consumers
)

// session is one run: its processes and what they said.
type session struct {
	cfg       Config
	dir       string
	in        *input
	nodes     *fleet
	producer  *producer
	samples   *sampler
	consumers []*follower
	alone     phase // before there were consumers
}

// follower is a consumer process as its parent sees it.
type follower struct {
	*child
	done chan struct{} // its output has ended
	mu   struct {
		sync.Mutex
		last Snapshot
	}
	news chan struct{} // capacity 1
}

// Run runs the demo until cfg.For is over or ctx ends; both end it well.
func Run(ctx context.Context, cfg Config) (r Report, err error) {
	s := &session{cfg: cfg, dir: cfg.Dir}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "rmatail-demo-"); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	} else if err = os.MkdirAll(s.dir, 0o755); err != nil {
		return r, err
	}
	clean := false
	defer func() { err = errors.Join(err, s.close(clean)) }()
	if err := s.start(ctx); err != nil {
		return r, err
	}
	followed, err := s.measure(func(m *phase) error {
		defer s.progress(m)()
		stopFaults := s.nodes.faults(ctx)
		err := s.producer.run(ctx, cfg.Rate, cfg.For, sampled)
		m.elapsed = time.Since(m.start)
		if err := errors.Join(err, stopFaults()); err != nil {
			return err
		}
		return s.drain()
	})
	if err != nil {
		return r, err
	}
	r = newReport(cfg, s, followed)
	clean = true
	return r, s.producer.verify(context.WithoutCancel(ctx), s.store())
}

// phase is a part of a run that is measured.
type phase struct {
	start          time.Time
	before         time.Duration // the nodes' processor time at the start
	elapsed        time.Duration // of appending
	cpu            time.Duration // that the nodes have used in the phase; 0 where that cannot be known
	appends, bytes uint64
}

// perAppend is the nodes' processor time for an append and all that went with it.
func (m phase) perAppend() time.Duration { return m.cpu / time.Duration(max(m.appends, 1)) }

func (s *session) measure(run func(*phase) error) (phase, error) {
	m := phase{start: time.Now()}
	appends, end := s.producer.appends, s.producer.end
	var beforeErr error
	m.before, beforeErr = s.nodes.cpu()
	err := run(&m)
	if after, afterErr := s.nodes.cpu(); beforeErr == nil && afterErr == nil {
		m.cpu = after - m.before
	}
	m.appends, m.bytes = s.producer.appends-appends, s.producer.end-end
	return m, err
}

func (s *session) store() string { return filepath.Join(s.dir, "store") }

// start brings everything up, appends for a while alone, and waits until all
// consumers have caught up.
func (s *session) start(ctx context.Context) (err error) {
	if s.in, err = openInput(s.cfg.Input); err != nil {
		return err
	}
	if s.nodes, err = startFleet(ctx, s.cfg, s.dir, s.store()); err != nil {
		return err
	}
	samples := filepath.Join(s.dir, "samples")
	if s.samples, err = newSampler(samples); err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, startTime+aloneTime)
	defer cancel()
	if s.producer, err = newProducer(starting, s.nodes.addr(), shardName, s.in, s.samples); err != nil {
		return s.nodes.failed(err)
	}
	// The first line creates the shard. It is no sample: nobody follows yet.
	if err := s.producer.append(starting, 1, unsampled); err != nil {
		return s.nodes.failed(err)
	}
	if s.alone, err = s.measure(func(m *phase) error {
		return s.producer.run(ctx, s.cfg.Rate, min(s.cfg.For/4, aloneTime), unsampled)
	}); err != nil {
		return s.nodes.failed(err)
	}
	for i := range s.cfg.Consumers {
		args := append([]string{s.cfg.Command, "demo-consumer"}, s.nodes.where()...)
		c, err := startChild(fmt.Sprintf("consumer-%d", i+1), s.dir, append(args, "--dir", s.store(),
			"--samples", samples, "--transport", s.cfg.Transport, "--device", s.cfg.Device, shardName)...)
		if err != nil {
			return err
		}
		f := &follower{child: c, done: make(chan struct{}), news: make(chan struct{}, 1)}
		s.consumers = append(s.consumers, f)
		go f.listen()
	}
	return s.each(starting, "did not start", func(n Snapshot) bool { return n.Position >= s.producer.end })
}

// drain tells the consumers where the end is, and waits for their last word.
func (s *session) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime+5*time.Second)
	defer cancel()
	for _, f := range s.consumers {
		if _, err := fmt.Fprintf(f.stdin, "end %d\n", s.producer.end); err != nil {
			return f.failed(err)
		}
	}
	return s.each(ctx, "did not end", func(n Snapshot) bool { return n.Done })
}

// each waits until every consumer's state is as wanted.
func (s *session) each(ctx context.Context, what string, wanted func(Snapshot) bool) error {
	for _, f := range s.consumers {
		for {
			n := f.snapshot()
			if n.Error != "" && n.Wrong == 0 && n.Gaps == 0 { // those are the report's matter
				return f.failed(errors.New(n.Error))
			}
			if wanted(n) {
				break
			}
			select {
			case <-f.news:
			case <-f.done:
				if !wanted(f.snapshot()) {
					<-f.ended
					return f.failed(fmt.Errorf("%s: %w", what, errors.Join(errors.New("the process has ended"), f.child.err)))
				}
			case <-ctx.Done():
				return f.failed(fmt.Errorf("%s: %w", what, ctx.Err()))
			}
		}
	}
	return nil
}

// listen takes Snapshots until the process ends.
func (f *follower) listen() {
	defer close(f.done)
	in := json.NewDecoder(f.out)
	for {
		var n Snapshot
		if in.Decode(&n) != nil {
			return
		}
		f.mu.Lock()
		f.mu.last = n
		f.mu.Unlock()
		select {
		case f.news <- struct{}{}:
		default:
		}
	}
}

func (f *follower) snapshot() Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.last
}

func (s *session) snapshots() (out []Snapshot) {
	for _, f := range s.consumers {
		out = append(out, f.snapshot())
	}
	return out
}

// progress reports until the returned function is called.
func (s *session) progress(m *phase) (stop func()) {
	if s.cfg.Progress == nil {
		return func() {}
	}
	var pids []int
	for _, f := range s.consumers {
		pids = append(pids, f.pid())
	}
	start, cpu := m.start, m.before
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
			}
			p := Progress{Elapsed: time.Since(start), Appended: s.producer.appended.Load(), Consumers: s.snapshots(), PIDs: pids, Nodes: len(s.nodes.addrs)}
			if now, err := s.nodes.cpu(); err == nil {
				p.ServerCPU = now - cpu
			}
			s.cfg.Progress(p)
		}
	}()
	return func() { close(quit); <-done }
}

// close ends all processes: in good order after a good run, else at once.
func (s *session) close(clean bool) (err error) {
	if s.producer != nil {
		err = s.producer.close()
	}
	if s.samples != nil {
		err = errors.Join(err, s.samples.close())
	}
	if s.in != nil {
		err = errors.Join(err, s.in.close())
	}
	for _, f := range s.consumers {
		if clean {
			err = errors.Join(err, f.stop())
		} else {
			f.kill()
		}
		<-f.done
	}
	if s.nodes != nil {
		err = errors.Join(err, s.nodes.close(clean))
	}
	return err
}
