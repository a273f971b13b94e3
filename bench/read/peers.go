package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/rmatail/rmatail/bench"
)

// Peer is a comparison with what a user would read from instead, over tcp: raw reads of
// 4 KiB, Depth of them in each batch on each of so many connections. Of one round, or
// the medians of all.
type Peer struct {
	Peer        string `json:"peer"`
	Connections int    `json:"connections"`
	Depth       int    `json:"depth"`

	Ours   Figures `json:"ours"`
	Theirs Figures `json:"theirs"`

	// Ours by theirs: of the rates, of the 99th percentiles of a batch, and of the
	// server's processor time for each MB.
	Rate      Spread  `json:"rate_ratio"`
	P99       Spread  `json:"p99_ratio"`
	ServerCPU *Spread `json:"server_cpu_ratio,omitempty"`
}

// peerCells are what is compared.
var peerCells = [...]struct{ connections, depth int }{{1, 64}, {512, 16}}

// openPeers starts redis, and connects to the node as often as one of the cells wants.
func (s *session) openPeers(ctx context.Context) (err error) {
	if s.c.Redis == "" {
		return nil
	}
	if s.redis, err = startRedis(ctx, s.c.Redis); err != nil {
		return err
	}
	for len(s.crowd) < peerCells[len(peerCells)-1].connections {
		p, err := connect(ctx, s.n, TCP, "")
		if err != nil {
			return err
		}
		s.crowd = append(s.crowd, p)
	}
	return nil
}

// peers measures every cell and its peer, which goes first in every other round.
func (s *session) peers(ctx context.Context, round int) (all []Peer, err error) {
	if s.redis == nil {
		return nil, nil
	}
	for _, p := range peerCells {
		l := cell{TCP, Raw, Rate, p.depth}
		row := Peer{Peer: "redis", Connections: p.connections, Depth: p.depth}
		turns := []func() error{
			func() (err error) { row.Theirs, err = s.theirs(ctx, l, p.connections); return err },
			func() (err error) { row.Ours, err = s.crowded(ctx, l, p.connections); return err },
		}
		if round%2 == 1 {
			turns[0], turns[1] = turns[1], turns[0]
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return nil, fmt.Errorf("redis, %d connections: %w", p.connections, err)
			}
		}
		row.compare()
		all = append(all, row)
	}
	return all, nil
}

func (p *Peer) compare() {
	p.Rate = spread([]float64{p.Ours.MsgRate / p.Theirs.MsgRate})
	p.P99 = spread([]float64{p.Ours.P99 / p.Theirs.P99})
	if p.Ours.ServerCPUByMB != nil && p.Theirs.ServerCPUByMB != nil {
		p.ServerCPU = new(spread([]float64{*p.Ours.ServerCPUByMB / *p.Theirs.ServerCPUByMB}))
	}
}

func (s *session) crowded(ctx context.Context, l cell, connections int) (Figures, error) {
	r := readers{server: s.n.CPU, allocs: true}
	for i, p := range s.crowd[:connections] {
		lane, err := newLane(p, s.at, l, 1, i, connections)
		if err != nil {
			return Figures{}, err
		}
		defer lane.release()
		lane.offs, lane.k = lane.offs[:1], 0 // as redis has one value
		r.steppers = append(r.steppers, lane)
	}
	return r.measure(ctx, l, s.c.For)
}

func (s *session) theirs(ctx context.Context, l cell, connections int) (Figures, error) {
	r := readers{server: s.redis.CPU}
	for range connections {
		one, err := newRedisReader(ctx, s.redis.addr, l.batch)
		if err != nil {
			return Figures{}, err
		}
		defer one.c.Close()
		r.steppers = append(r.steppers, one)
	}
	return r.measure(ctx, l, s.c.For)
}

func (s *session) closePeers() error {
	var errs []error
	for _, p := range s.crowd {
		errs = append(errs, p.close())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Stop())
	}
	return errors.Join(errs...)
}

// peerSummaries are the medians of all rounds.
func peerSummaries(rounds [][]Peer) (all []Peer) {
	if len(rounds) == 0 {
		return nil
	}
	for i, first := range rounds[0] {
		var ours, theirs []Figures
		var rate, p99, cpu []float64
		for _, round := range rounds {
			r := round[i]
			ours, theirs = append(ours, r.Ours), append(theirs, r.Theirs)
			rate, p99 = append(rate, r.Rate.Median), append(p99, r.P99.Median)
			if r.ServerCPU != nil {
				cpu = append(cpu, r.ServerCPU.Median)
			}
		}
		p := Peer{Peer: first.Peer, Connections: first.Connections, Depth: first.Depth, Ours: medians(ours), Theirs: medians(theirs),
			Rate: spread(rate), P99: spread(p99)}
		if len(cpu) == len(rounds) {
			p.ServerCPU = new(spread(cpu))
		}
		all = append(all, p)
	}
	return all
}

// peerClaims says what must hold of five rounds or more.
func peerClaims(res *Result) (all []bench.Claim) {
	claim := func(holds bool, text string, got Spread) {
		all = append(all, bench.Claim{Text: text, Measured: fmt.Sprintf("%.3f (%.3f to %.3f)", got.Median, got.Least, got.Most), Holds: holds})
	}
	for _, p := range res.Peers {
		name := fmt.Sprintf("tcp, raw 4 KiB, depth %d, %d connections", p.Depth, p.Connections)
		switch p.Connections {
		case 1:
			claim(p.Rate.Median >= 1.8, fmt.Sprintf("%s: rate at least 1.80 of %s GET's", name, p.Peer), p.Rate)
			if p.ServerCPU != nil {
				claim(p.ServerCPU.Median <= 0.6, fmt.Sprintf("%s: server's processor time for each MB at most 0.60 of %s'", name, p.Peer), *p.ServerCPU)
			}
		default:
			claim(p.Rate.Median >= 1.2, fmt.Sprintf("%s: rate at least 1.20 of %s GET's", name, p.Peer), p.Rate)
			claim(p.P99.Median <= 1, fmt.Sprintf("%s: 99th percentile of a batch at most that of %s", name, p.Peer), p.P99)
		}
	}
	return all
}

// writePeers prints the comparisons.
func (r *Result) writePeers(out io.Writer) error {
	if len(r.Peers) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ntcp raw against\tconnections\tdepth\tMsgRate[Mpps]\ttheirs\tratio\tleast\tmost\t99% of a batch[usec]\ttheirs\tratio\tserver CPU[usec/MB]\ttheirs\tratio\tclient CPU[usec/MB]\ttheirs\t")
	for _, p := range r.Peers {
		o, t := p.Ours, p.Theirs
		cpu := "-"
		if p.ServerCPU != nil {
			cpu = fmt.Sprintf("%.3f", p.ServerCPU.Median)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.6f\t%.6f\t%.3f\t%.3f\t%.3f\t%.1f\t%.1f\t%.3f\t%s\t%s\t%s\t%.1f\t%.1f\t\n", p.Peer, p.Connections, p.Depth, o.MsgRate, t.MsgRate,
			p.Rate.Median, p.Rate.Least, p.Rate.Most, o.P99, t.P99, p.P99.Median, optional("%.1f", o.ServerCPUByMB), optional("%.1f", t.ServerCPUByMB), cpu, o.ClientCPUByMB, t.ClientCPUByMB)
	}
	return w.Flush()
}
