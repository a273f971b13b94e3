package reader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma/local"
)

// shmCluster is a Cluster over a real arena's shared memory, without a node
// around it.
func shmCluster(t testing.TB, size uint64) (*Cluster, *fabricWriter) {
	c, w := shmClusterOf(t, size, "fabric")
	return c, &fabricWriter{t: t, shard: w.shard, store: w.store, f: w.s.nodes["fabric"].fabric, tail: w.tail}
}

// shmClusterOf is one over the arenas of several nodes.
func shmClusterOf(t testing.TB, size uint64, names ...string) (*Cluster, *siteWriter) {
	s := &site{views: &views{}, nodes: map[string]*siteNode{}}
	s.siteWriter = newSiteWriter(t, s)
	s.views.set(t, siteNodes(names...))
	s.c = bareCluster(t, s.store)
	s.c.members(t, s.views)
	for _, p := range s.c.roster.Load().peers {
		a, err := chunkstore.New(chunkstore.Config{Bytes: size})
		if err != nil {
			t.Fatal(err)
		}
		file, err := a.File()
		if err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(t.TempDir(), "shm.sock")
		l, err := local.Listen(socket, file, uint64(len(a.Bytes())), a.Epoch())
		if err != nil {
			t.Fatal(err)
		}
		m, err := local.Dial(context.Background(), socket, a.Epoch())
		if err != nil {
			t.Fatal(err)
		}
		via, err := newPath(shmMemory{m}, FromSHM, a.Epoch(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		p.give(via)
		s.nodes[p.name] = &siteNode{fabric: &fabric{arena: a}, up: true}
		t.Cleanup(func() {
			s.c.Close()
			m.Close()
			l.Close()
			a.Close()
		})
	}
	s.c.tasks.Go(newPoller(s.c).run)
	return s.c, s.siteWriter
}

// TestRealTailAllocates nothing in the steady state: publish, poll, delta read,
// verify, deliver.
func TestRealTailAllocates(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b", "c", "d", "e", "p1"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			c, w := shmClusterOf(t, 32<<20, names...)
			w.append(100)
			w.publish(0)
			ctx := t.Context()
			r, err := c.Reader(ctx, "fabric/3", Earliest())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			const record = 200
			step := func() {
				w.append(record)
				w.publish(0)
				for r.Position() < w.pos {
					b, err := r.Next(ctx)
					if err != nil || b.Source != FromSHM || wrongAt(b.Data, b.Position) >= 0 {
						t.Fatalf("%d bytes at %d from %v, %v", len(b.Data), b.Position, b.Source, err)
					}
				}
			}
			for range 400 { // past the first extent, so that pools are warm
				step()
			}
			perCheck := testing.AllocsPerRun(300, func() { w.append(record); w.publish(0) })
			for r.Position() < w.pos {
				if _, err := r.Next(ctx); err != nil {
					t.Fatal(err)
				}
			}
			perCheck++ // wrongAt makes a slice for each batch
			if n := testing.AllocsPerRun(300, step); n > perCheck {
				t.Fatalf("%.1f allocations for each record of %d bytes, want at most the %.1f of the writing and the check", n, record, perCheck)
			}
		})
	}
}

// TestRealBacklogAllocates nothing for a chunk, whether it is lent or written.
func TestRealBacklogAllocates(t *testing.T) {
	const backlog = 8 << 20
	c, w := shmCluster(t, 64<<20)
	for w.pos < backlog {
		w.append(64 << 10)
	}
	w.publish(0)
	ctx := t.Context()
	r, err := c.Reader(ctx, "fabric/3", Earliest())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var sink untilEnough
	for what, read := range map[string]func(){
		"Next": func() {
			for r.Position() < backlog {
				if b, err := r.Next(ctx); err != nil || b.Source != FromSHM {
					t.Fatal(b.Source, err)
				}
			}
		},
		"WriteTo": func() {
			sink.left = backlog
			if n, err := r.WriteTo(&sink); n != backlog || err != errSated {
				t.Fatal(n, err)
			}
		},
	} {
		least := math.Inf(1) // the poller and the runtime take some now and then
		for range 3 {
			least = min(least, testing.AllocsPerRun(10, func() { r.start(0, backlog); read() }))
		}
		if least > 2 { // of going back
			t.Errorf("%s: %v allocations for %d chunks", what, least, backlog/layout.ChunkSize)
		}
	}
}

var errSated = errors.New("sated")

// untilEnough takes some bytes, and ends with them.
type untilEnough struct{ left int }

func (u *untilEnough) Write(p []byte) (int, error) {
	if u.left -= len(p); u.left <= 0 {
		return len(p), errSated
	}
	return len(p), nil
}

// BenchmarkBacklog reads a backlog of verified chunks over shared memory.
func BenchmarkBacklog(b *testing.B) {
	const backlog = 16 << 20
	c, w := shmCluster(b, 64<<20)
	for w.pos < backlog {
		w.append(64 << 10)
	}
	w.publish(0)
	r, err := c.Reader(b.Context(), "fabric/3", Earliest())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.SetBytes(backlog)
	b.ReportAllocs()
	for b.Loop() {
		r.start(0, backlog)
		for r.Position() < backlog {
			if _, err := r.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(backlog/layout.ChunkSize), "ns/chunk")
}

// BenchmarkBacklogOfNine is the same with extents that are spread over nine nodes.
func BenchmarkBacklogOfNine(b *testing.B) {
	const backlog = 16 << 20
	c, w := shmClusterOf(b, 64<<20, "a", "b", "c", "d", "e", "f", "g", "h", "i")
	for w.pos < backlog {
		w.append(64 << 10)
	}
	w.publish(0)
	r, err := c.Reader(b.Context(), "fabric/3", Earliest())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.SetBytes(backlog)
	b.ReportAllocs()
	for b.Loop() {
		r.start(0, backlog)
		for r.Position() < backlog {
			if _, err := r.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(backlog/layout.ChunkSize), "ns/chunk")
}

// BenchmarkCopyCRC is the floor of BenchmarkBacklog: a copy and a CRC32C of each
// chunk, in a loop over the same mapping.
func BenchmarkCopyCRC(b *testing.B) {
	const backlog = 16 << 20
	c, w := shmCluster(b, 64<<20)
	for w.pos < backlog {
		w.append(64 << 10)
	}
	mem := w.f.arena.Bytes()
	first := c.only().paths(time.Now())[0].geometry.ExtentSlot(0)
	to := make([]byte, layout.ExtentSize)
	b.SetBytes(backlog)
	var sum uint32
	for b.Loop() {
		for off := uint64(0); off < backlog; off += layout.ExtentSize {
			copy(to, mem[first+off:])
			for i := 0; i < layout.ExtentSize; i += layout.ChunkSize {
				sum ^= layout.ExtendCRC(0, to[i:i+layout.ChunkSize])
			}
		}
	}
	_ = sum
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(backlog/layout.ChunkSize), "ns/chunk")
}
