package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/reader"
)

// fault notes that something was broken.
func (s *site) fault(kind string) { s.faults[kind]++ }

// pass lets the site run for a time, or until a reader fails.
func (s *site) pass(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-tick.C:
			s.check()
		}
	}
}

func (s *site) check() {
	s.t.Helper()
	for _, x := range s.tails {
		if err := x.err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// holders returns the nodes that hold what is appended to a shard now, full
// replicas only, as indices.
func (s *site) holders(f *feed) []int {
	v, err := cluster.NewView(s.described(s.own))
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := s.info(f.shard)
	if err != nil {
		s.t.Fatal(err)
	}
	var set cluster.Replicas
	v.Extent(f.shard.Hash(info.Incarnation), layout.Extent(info.Length), &set)
	var all []int
	for _, i := range set.Full() {
		all = append(all, slices.IndexFunc(s.nodes, func(n *node) bool { return n.Name == v.Nodes[i].Name }))
	}
	return all
}

func (s *site) info(shard layout.Shard) (durable.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.direct.Stat(ctx, shard.String())
}

// durableBytes is what the direct readers and those over tcp were given from the
// store.
func (s *site) durableBytes() (direct, tcp uint64) {
	return s.direct.Stats().DeliveredBy["durable"], s.tcp.Stats().DeliveredBy["durable"]
}

// back waits until every reader is served by the cache again, and stays so for a
// second; it returns how long after from the last byte of the store came.
func (s *site) back(from time.Time, limit time.Duration) time.Duration {
	s.t.Helper()
	const steady = time.Second
	latest := func(of func(*tailer) int64) (at time.Time) {
		for _, x := range s.tails {
			if x.wander == nil {
				at = later(at, time.Unix(0, of(x)))
			}
		}
		return at
	}
	ok := within(limit+steady, func() bool {
		s.check()
		last := later(from, latest(func(x *tailer) int64 { return x.durableAt.Load() }))
		for _, x := range s.tails {
			if x.wander == nil && !time.Unix(0, x.cacheAt.Load()).After(last.Add(steady)) {
				return false
			}
		}
		return true
	})
	if !ok {
		s.t.Errorf("%v after the cache is back it does not serve every reader: %s", limit, s.state())
	}
	return max(latest(func(x *tailer) int64 { return x.durableAt.Load() }).Sub(from), 0)
}

// state says where everything is, for a failure.
func (s *site) state() string {
	var b strings.Builder
	for _, f := range s.feeds {
		fmt.Fprintf(&b, "\n%v appended to %d, %d appends failed, last: %v", f.shard, f.acked.Load(), f.errs.Load(), f.lastErr())
	}
	for _, x := range s.tails {
		fmt.Fprintf(&b, "\n%s at %d, cache %v ago, store %v ago", x.name, x.pos.Load(),
			time.Since(time.Unix(0, x.cacheAt.Load())).Round(time.Millisecond), time.Since(time.Unix(0, x.durableAt.Load())).Round(time.Millisecond))
	}
	for name, c := range map[string]*reader.Cluster{"direct": s.direct, "tcp": s.tcp} {
		fmt.Fprintf(&b, "\n%s: %+v", name, c.Stats())
	}
	if s.cache != nil {
		fmt.Fprintf(&b, "\nwriter: %+v", s.cache.Stats())
	}
	return b.String()
}

// finish stops the producers, waits for the readers to have everything that is
// durable, holds the store against what was acknowledged, and reports.
func (s *site) finish(what string) {
	s.t.Helper()
	s.stopFeeding()
	for _, x := range s.tails {
		x.straight.Store(true)
	}
	lost := 0
	for _, f := range s.feeds {
		info, err := s.info(f.shard)
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Length < f.acked.Load() {
			lost++
			s.t.Errorf("%v has %d bytes, %d were acknowledged", f.shard, info.Length, f.acked.Load())
		}
		if !within(catchUp, func() bool {
			s.check()
			for _, x := range s.tails {
				if x.shard == f.shard && x.pos.Load() < info.Length {
					return false
				}
			}
			return true
		}) {
			s.t.Fatalf("%v after the last append not everything is delivered: %s", catchUp, s.state())
		}
		s.verify(f, info)
	}
	var checked uint64
	var wrong, gaps int64
	for _, x := range s.tails {
		checked, wrong, gaps = checked+x.checked.Load(), wrong+x.wrong.Load(), gaps+x.gaps.Load()
	}
	s.stopReading()
	direct, tcp := s.durableBytes()
	s.t.Logf("report: %s: %.3f GB checked, faults %s; wrong bytes %d, gaps %d, appends lost %d; %.1f MB from the store over %v",
		what, float64(checked)/1e9, s.counted(), wrong, gaps, lost, float64(direct+tcp)/1e6, time.Since(s.began).Round(time.Second))
}

func (s *site) counted() string {
	if len(s.faults) == 0 {
		return "none"
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(s.faults)) {
		all = append(all, fmt.Sprintf("%d %s", s.faults[kind], kind))
	}
	return strings.Join(all, ", ")
}

// verify reads a shard from the store and checks every byte.
func (s *site) verify(f *feed, info durable.Info) {
	store, err := durable.Open(s.dir, durable.Options{ReadOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	p, room := make([]byte, 1<<20), []byte(nil)
	for pos := info.First; pos < info.Length; {
		n, err := store.ReadAt(context.Background(), f.shard.String(), pos, p)
		if err != nil || n == 0 {
			s.t.Fatalf("store at %d of %d: %d bytes, %v", pos, info.Length, n, err)
		}
		if i := wrongAt(p[:n], f.shard, pos, &room); i >= 0 {
			s.t.Fatalf("the store's byte at %d is wrong", pos+uint64(i))
		}
		pos += uint64(n)
	}
}
