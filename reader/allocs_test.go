package reader

import (
	"context"
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
	a, err := chunkstore.New(chunkstore.Config{Bytes: size})
	if err != nil {
		t.Fatal(err)
	}
	file, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "shm.sock")
	s, err := local.Listen(socket, file, uint64(len(a.Bytes())), a.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	m, err := local.Dial(context.Background(), socket, a.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	w := newFabricWriter(t, &fabric{arena: a})
	c := bareCluster(t, w.store)
	p, err := newPath(shmMemory{m}, FromSHM, a.Epoch(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.only().give(p)
	c.tasks.Go(newPoller(c).run)
	t.Cleanup(func() {
		c.Close()
		m.Close()
		s.Close()
		a.Close()
	})
	return c, w
}

// TestRealTailAllocates nothing in the steady state: publish, poll, delta read,
// verify, deliver.
func TestRealTailAllocates(t *testing.T) {
	c, w := shmCluster(t, 32<<20)
	w.append(100)
	w.publish(0)
	ctx := t.Context()
	r, err := c.Reader(ctx, "fabric/3", Earliest())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const record = 200
	data := make([]byte, record)
	step := func() {
		fill(data, w.pos)
		w.put(data)
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
	const perCheck = 1 // wrongAt makes a slice for each batch
	if n := testing.AllocsPerRun(300, step); n > perCheck {
		t.Fatalf("%.1f allocations for each record of %d bytes, want at most the %d of the check", n, record, perCheck)
	}
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
