package read

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rmatail/rmatail/bench"
	"github.com/rmatail/rmatail/bench/child"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Result is what a benchmark found. Its keys are an interface.
type Result struct {
	Command     string            `json:"command,omitempty"`
	Environment bench.Environment `json:"environment"`
	Device      *Device           `json:"device,omitempty"`
	Settings    Settings          `json:"settings"`
	Rows        []Row             `json:"rows"` // medians
	OneSided    []OneSided        `json:"one_sided,omitempty"`
	Peers       []Peer            `json:"peers,omitempty"` // medians
	Claims      []bench.Claim     `json:"claims,omitempty"`
	Rounds      [][]Row           `json:"rounds"`
	PeerRounds  [][]Peer          `json:"peer_rounds,omitempty"`
}

// Device is the RDMA path that was measured.
type Device struct {
	Device        string `json:"device"`
	GIDType       string `json:"gid_type"`
	MTU           int    `json:"mtu_bytes"`
	ReadsInFlight int    `json:"reads_in_flight"`
}

// Settings are those that the figures depend on.
type Settings struct {
	Readers    int     `json:"readers"`
	Shards     int     `json:"shards"`
	ShardBytes int     `json:"shard_bytes"`
	InFlight   int     `json:"in_flight"`
	Seconds    float64 `json:"seconds"`
	Rounds     int     `json:"rounds"`
}

// session is a run: its processes and connections.
type session struct {
	c     Config
	n     *node
	at    *places
	paths map[Transport][]*path
	back  map[Transport][]*backlog

	mem   []byte // of the copy floor
	unmap func() error
	plain *child.Process // floor of tcp
	addr  string
	verbs *verbsFloor
	redis *redis
	crowd []*path // to the node, as many as connections of redis
}

// Run measures all cells. When ctx ends it stops within a cell.
func Run(ctx context.Context, c Config) (res *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	res = &Result{Environment: bench.ThisEnvironment(), Settings: Settings{Readers: c.Readers, Shards: c.Shards, ShardBytes: c.ShardBytes,
		InFlight: c.InFlight, Seconds: c.For.Seconds(), Rounds: c.Rounds}}
	s := &session{c: c, paths: make(map[Transport][]*path), back: make(map[Transport][]*backlog)}
	defer func() {
		if err = errors.Join(err, s.close()); err != nil {
			res = nil
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if p := s.paths[RDMA]; len(p) > 0 {
		at := p[0].memory.(rdmaMemory).Path
		res.Device = &Device{Device: at.Device, GIDType: at.GIDType.String(), MTU: at.MTU, ReadsInFlight: at.Reads}
	}
	for n := range c.Rounds {
		var round []Row
		for _, l := range c.cells() {
			row, err := s.row(ctx, l, n)
			if err != nil {
				return nil, fmt.Errorf("%s %s, %s, batch %d: %w", l.transport, l.kind, l.mode, l.batch, err)
			}
			round = append(round, row)
			if c.Progress != nil {
				c.Progress(n+1, row)
			}
		}
		res.Rounds = append(res.Rounds, round)
		peers, err := s.peers(ctx, n)
		if err != nil {
			return nil, err
		}
		if len(peers) > 0 {
			res.PeerRounds = append(res.PeerRounds, peers)
		}
	}
	res.Rows, res.Peers = summaries(res.Rounds), peerSummaries(res.PeerRounds)
	if res.OneSided, err = s.oneSided(ctx); err != nil {
		return nil, err
	}
	res.Claims = claims(res)
	res.Environment.End()
	return res, nil
}

// open starts the node, connects the readers, and starts the floors.
func (s *session) open(ctx context.Context) (err error) {
	if s.n, err = startNode(ctx, s.c); err != nil {
		return err
	}
	for _, t := range s.c.Transports {
		for range s.c.Readers {
			p, err := connect(ctx, s.n, t, s.c.Device)
			if err != nil {
				return err
			}
			s.paths[t] = append(s.paths[t], p)
			b, err := newBacklog(ctx, s.n, t, s.c.Device)
			if err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
			s.back[t] = append(s.back[t], b)
		}
		if s.at == nil {
			if s.at, err = s.n.published(ctx, s.paths[t][0]); err != nil {
				return err
			}
		}
		if err := s.openFloor(ctx, t); err != nil {
			return fmt.Errorf("floor of %s: %w", t, err)
		}
	}
	return s.openPeers(ctx)
}

func (s *session) openFloor(ctx context.Context, t Transport) (err error) {
	switch {
	case t == SHM:
		s.mem, s.unmap, err = sharedMapping(s.span())
	case t == TCP && len(s.c.TCPFloor) > 0:
		args := append(append([]string(nil), s.c.TCPFloor...), strconv.Itoa(s.span()))
		if s.plain, err = child.Start(args...); err == nil {
			s.addr, err = s.plain.Line(ctx, startTime)
		}
	case t == RDMA && s.c.VerbsFloor != "" && s.c.Readers == 1:
		s.verbs, err = newVerbsFloor(ctx, s.c.VerbsFloor, s.paths[RDMA][0].memory.(rdmaMemory).Path, len(s.at.chunks))
	}
	return err
}

// span is the size of a floor's memory: as many chunks as are read of the arena.
func (s *session) span() int { return len(s.at.chunks) * layout.ChunkSize }

func (s *session) close() error {
	errs := []error{s.closePeers()}
	for _, t := range s.c.Transports {
		for _, b := range s.back[t] {
			errs = append(errs, b.close())
		}
		for _, p := range s.paths[t] {
			errs = append(errs, p.close())
		}
	}
	if s.verbs != nil {
		errs = append(errs, s.verbs.stop())
	}
	if s.plain != nil {
		errs = append(errs, s.plain.Stop())
	}
	if s.unmap != nil {
		errs = append(errs, s.unmap())
	}
	if s.n != nil {
		errs = append(errs, s.n.stop())
	}
	return errors.Join(errs...)
}

// row measures a cell and its floor, which goes first in every other round.
func (s *session) row(ctx context.Context, l cell, round int) (r Row, err error) {
	r = Row{Transport: l.transport, Kind: l.kind, Mode: l.mode, Batch: l.batch, Bytes: l.kind.bytes()}
	if round%2 == 0 {
		if r.Floor, err = s.floor(ctx, l); err != nil {
			return r, fmt.Errorf("floor: %w", err)
		}
	}
	if r.Ours, err = s.ours(ctx, l); err != nil {
		return r, err
	}
	if round%2 == 1 {
		if r.Floor, err = s.floor(ctx, l); err != nil {
			return r, fmt.Errorf("floor: %w", err)
		}
	}
	if r.Floor != nil {
		if f := r.main(*r.Floor); f > 0 {
			r.Ratio = new(spread([]float64{r.main(r.Ours) / f}))
		}
	}
	return r, nil
}

// ours measures a cell of our own.
func (s *session) ours(ctx context.Context, l cell) (Figures, error) {
	r := readers{server: s.n.CPU, allocs: true}
	if l.kind == Backlog {
		for _, b := range s.back[l.transport] {
			r.steppers = append(r.steppers, b)
		}
		return r.measure(ctx, l, s.c.For)
	}
	for i, p := range s.paths[l.transport] {
		lane, err := newLane(p, s.at, l, s.c.inFlight(l), i, s.c.Readers)
		if err != nil {
			return Figures{}, err
		}
		defer lane.release()
		r.steppers = append(r.steppers, lane)
	}
	return r.measure(ctx, l, s.c.For)
}

// floor measures a cell's floor; nil: there is none.
func (s *session) floor(ctx context.Context, l cell) (*Figures, error) {
	var r readers
	switch {
	case l.transport == SHM:
		for range s.c.Readers {
			r.steppers = append(r.steppers, newCopyFloor(s.mem, l, len(s.at.chunks)))
		}
	case l.transport == TCP && s.plain != nil:
		r.server = s.plain.CPU
		for range s.c.Readers {
			f, err := newTCPFloor(ctx, s.addr, l, s.c.inFlight(l), len(s.at.chunks))
			if err != nil {
				return nil, err
			}
			defer f.c.Close()
			r.steppers = append(r.steppers, f)
		}
	case l.transport == RDMA && s.verbs != nil && !l.kind.verified():
		f, err := s.verbs.measure(ctx, l, s.c.inFlight(l), s.c.Shards, s.c.For)
		return &f, err
	default:
		return nil, nil
	}
	f, err := r.measure(ctx, l, s.c.For)
	return &f, err
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
