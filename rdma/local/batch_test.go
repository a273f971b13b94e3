package local

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/internal/crccopy"
)

// pipeConn is a Conn over memory of this process. The node is the other end of a
// pipe; what the unmapping would make unreadable is overwritten, which the race
// detector sees as a race with any copy that is not done.
func pipeConn(t testing.TB, size int, d Dialer) (c *Conn, node net.Conn) {
	t.Helper()
	d, err := d.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	arena := make([]byte, size)
	fillPattern(arena, 1)
	sock, node := net.Pipe()
	c = newConn(sock, arena, nil, func() error { clear(arena); return nil }, d)
	t.Cleanup(func() {
		node.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, node
}

func newBatch(t testing.TB, c *Conn, size int) *Batch {
	t.Helper()
	b, err := c.NewBatch(size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBatchReads(t *testing.T) {
	const size = 100_003
	c, _ := pipeConn(t, size, Dialer{})
	if c.Size() != size {
		t.Fatalf("size %d", c.Size())
	}
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 20_000).Draw(t, "room")
		b, err := c.NewBatch(room)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		for range rapid.IntRange(1, 2).Draw(t, "rounds") {
			type planned struct {
				off uint64
				to  []byte
			}
			var reads []planned
			used := 0
			for range rapid.IntRange(1, MaxReads+3).Draw(t, "reads") {
				off := rapid.OneOf(rapid.Uint64Range(0, size+1), rapid.Uint64()).Draw(t, "off")
				n := rapid.OneOf(rapid.IntRange(1, 64), rapid.IntRange(-1, 20_001)).Draw(t, "n")
				at := (used + 7) / 8 * 8
				want := n > 0 && at+n <= room && off <= size && uint64(n) <= size-off && len(reads) < MaxReads
				to := b.Add(off, n)
				if (to != nil) != want {
					t.Fatalf("read of %d at %d after %d of %d bytes and %d reads: planned %v", n, off, used, room, len(reads), to != nil)
				}
				if to == nil {
					continue
				}
				if len(to) != n || cap(to) != n || uintptr(unsafe.Pointer(unsafe.SliceData(to)))%8 != 0 {
					t.Fatalf("%d bytes (cap %d) at %p for %d", len(to), cap(to), unsafe.SliceData(to), n)
				}
				used = at + n
				reads = append(reads, planned{off, to})
			}
			if len(reads) == 0 {
				continue
			}
			if err := errors.Join(b.Post(time.Now().Add(time.Second)), b.Wait()); err != nil {
				t.Fatal(err)
			}
			for _, r := range reads {
				if n := checkPattern(r.to, r.off, 1); n > 0 {
					t.Fatalf("%d of %d bytes at %d are wrong", n, len(r.to), r.off)
				}
			}
			b.Reset()
		}
	})
}

func TestBatchStates(t *testing.T) {
	c, _ := pipeConn(t, 4096, Dialer{})
	b := newBatch(t, c, 100)
	if err := b.Post(time.Time{}); !errors.Is(err, ErrState) {
		t.Errorf("post of nothing: %v", err)
	}
	if err := b.Wait(); !errors.Is(err, ErrState) {
		t.Errorf("wait before post: %v", err)
	}
	b.Add(0, 8)
	if err := b.Post(time.Time{}); err != nil {
		t.Error(err)
	}
	if b.Add(0, 8) != nil {
		t.Error("planned after post")
	}
	if err := b.Post(time.Time{}); !errors.Is(err, ErrState) {
		t.Errorf("second post: %v", err)
	}
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	if err := b.Wait(); !errors.Is(err, ErrState) {
		t.Errorf("second wait: %v", err)
	}
	b.Reset()
	if b.Add(0, 100) == nil {
		t.Error("no room after reset")
	}
	b.Release()
	b.Release() // no harm
	b.Reset()
	if b.Add(0, 1) != nil || !errors.Is(b.Post(time.Time{}), ErrState) {
		t.Error("used after release")
	}
	if x, y := newBatch(t, c, 100), newBatch(t, c, 100); x == y {
		t.Error("released twice, handed out twice")
	}
	for _, size := range []int{-1, 0, MaxBatchBytes + 1} {
		if _, err := c.NewBatch(size); !errors.Is(err, ErrBatchSize) {
			t.Errorf("batch of %d: %v", size, err)
		}
	}
}

func TestBatchMemoryIsBounded(t *testing.T) {
	c, _ := pipeConn(t, 4096, Dialer{BufferBytes: 64 << 10})
	var all []*Batch
	for {
		b, err := c.NewBatch(5000) // takes 8 KiB
		if err != nil {
			if !errors.Is(err, ErrNoBuffers) {
				t.Fatal(err)
			}
			break
		}
		all = append(all, b)
	}
	if len(all) != 8 {
		t.Fatalf("%d batches of 8 KiB in 64 KiB", len(all))
	}
	if _, err := c.NewBatch(1); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("one more: %v", err)
	}
	for _, b := range all {
		b.Release()
	}
	b := newBatch(t, c, 60<<10) // the idle ones make room
	if _, err := c.NewBatch(1); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("beside 64 KiB: %v", err)
	}
	b.Release()
	newBatch(t, c, 1).Release()
}

func TestLostThenNothingIsRead(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(c *Conn, node net.Conn)
		want error
	}{
		{"node ends", func(_ *Conn, node net.Conn) { node.Close() }, ErrLost},
		{"node talks", func(_ *Conn, node net.Conn) { node.Write([]byte("x")) }, ErrLost},
		{"closed", func(c *Conn, _ net.Conn) { c.Close() }, ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, node := pipeConn(t, 4096, Dialer{})
			planned, postedBatch := newBatch(t, conn, 64), newBatch(t, conn, 64)
			planned.Add(8, 8)
			to := postedBatch.Add(8, 8)
			if err := postedBatch.Post(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if err := conn.Err(); err != nil {
				t.Fatalf("before: %v", err)
			}
			c.end(conn, node)
			select {
			case <-conn.Lost():
			case <-time.After(10 * time.Second):
				t.Fatal("not lost")
			}
			if err := conn.Err(); !errors.Is(err, c.want) {
				t.Errorf("Err: %v", err)
			}
			if err := postedBatch.Wait(); !errors.Is(err, c.want) {
				t.Errorf("Wait: %v", err)
			}
			for _, b := range to {
				if b != 0 {
					t.Fatal("read after the end")
				}
			}
			if err := planned.Post(time.Time{}); !errors.Is(err, c.want) {
				t.Errorf("Post: %v", err)
			}
			if _, err := conn.NewBatch(8); !errors.Is(err, c.want) {
				t.Errorf("NewBatch: %v", err)
			}
			planned.Release()
			postedBatch.Release()
			if err := errors.Join(conn.Close(), conn.Close()); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := conn.Err(); !errors.Is(err, c.want) { // the first reason stays
				t.Errorf("Err after Close: %v", err)
			}
		})
	}
}

// Many goroutines read while the node goes away: the unmapping waits for copies
// under way (the race detector watches), and each Wait is right or an error.
func TestEndWhileReading(t *testing.T) {
	for round := range 20 {
		conn, node := pipeConn(t, 1<<20, Dialer{})
		var readers sync.WaitGroup
		started := make(chan struct{}, 8)
		for r := range 8 {
			readers.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(round), uint64(r)))
				b, err := conn.NewBatch(64 << 10)
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Release()
				for n := 0; ; n++ {
					off := uint64(rnd.IntN(1<<20 - 64<<10))
					to := b.Add(off, 64<<10)
					err := b.Post(time.Time{})
					if err == nil {
						err = b.Wait()
					}
					if n == 3 {
						started <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					if wrong := checkPattern(to[:64], off, 1) + checkPattern(to[len(to)-64:], off+64<<10-64, 1); wrong > 0 {
						t.Errorf("%d wrong bytes", wrong)
						return
					}
					b.Reset()
				}
			})
		}
		for range 8 {
			<-started
		}
		if round%2 == 0 {
			node.Close()
		} else if err := conn.Close(); err != nil {
			t.Error(err)
		}
		readers.Wait()
	}
}

// A batch in steady state does not allocate, neither kept nor taken anew.
func TestAllocations(t *testing.T) {
	c, _ := pipeConn(t, 1<<20, Dialer{})
	kept := newBatch(t, c, 64<<10)
	if n := testing.AllocsPerRun(200, func() {
		for i := range 16 {
			kept.Add(uint64(i)*4096, 4096)
		}
		if kept.Post(time.Time{}) != nil || kept.Wait() != nil {
			t.Fatal("failed")
		}
		kept.Reset()
	}); n != 0 {
		t.Errorf("%v allocations a kept batch", n)
	}
	if n := testing.AllocsPerRun(200, func() {
		b, err := c.NewBatch(4096)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(8, 4096)
		if b.Post(time.Time{}) != nil || b.Wait() != nil {
			t.Fatal("failed")
		}
		b.Release()
	}); n != 0 {
		t.Errorf("%v allocations a new batch", n)
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct {
		name     string
		reads, n int
	}{{"reads=1/size=512B", 1, 512}, {"reads=1/size=4096B", 1, 4096}, {"reads=16/size=4096B", 16, 4096}, {"reads=256/size=4096B", 256, 4096}} {
		b.Run(c.name, func(b *testing.B) {
			conn, _ := pipeConn(b, 64<<20, Dialer{})
			batch := newBatch(b, conn, c.reads*c.n)
			b.SetBytes(int64(c.reads * c.n))
			b.ReportAllocs()
			off := uint64(0)
			for b.Loop() {
				for range c.reads {
					if batch.Add(off, c.n) == nil {
						b.Fatal("no room")
					}
					off = (off + 4096) % (63 << 20)
				}
				if batch.Post(time.Time{}) != nil || batch.Wait() != nil {
					b.Fatal("failed")
				}
				batch.Reset()
			}
		})
	}
}

// TestAwait reads at once, whatever the time.
func TestAwait(t *testing.T) {
	c, _ := pipeConn(t, 1<<16, Dialer{BufferBytes: 1 << 20})
	b := newBatch(t, c, 4096)
	defer b.Release()
	got := b.Add(100, 8)
	if err := b.Post(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if settled, err := b.Await(time.Time{}); !settled || err != nil || !bytes.Equal(got, c.arena[100:108]) {
		t.Fatalf("%v, %v", settled, err)
	}
	if settled, err := b.Await(time.Now()); !settled || !errors.Is(err, ErrState) {
		t.Fatalf("again: %v, %v", settled, err)
	}
}

// TestBatchSums: sums are those of what has landed, of whole blocks, and of each read apart.
func TestBatchSums(t *testing.T) {
	c, _ := pipeConn(t, 100_000, Dialer{})
	b := newBatch(t, c, 64<<10)
	defer b.Release()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for range 2 {
		type summed struct {
			data []byte
			sums []uint32
		}
		var all []summed
		for _, r := range []struct {
			off uint64
			n   int
		}{{0, 4096}, {4099, 100}, {77, 3*4096 + 5}, {50_000, 8192}} {
			data, sums := b.AddSums(r.off, r.n)
			if len(data) != r.n || len(sums) != r.n/crccopy.Block {
				t.Fatalf("%d bytes and %d sums for %d", len(data), len(sums), r.n)
			}
			all = append(all, summed{data, sums})
		}
		if data, sums := b.AddSums(99_999, 2); data != nil || sums != nil {
			t.Error("a read beyond the end was planned")
		}
		if err := b.Post(later()); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			for i, sum := range s.sums {
				if got, want := crccopy.Join(9, sum), crc32.Update(9, castagnoli, s.data[i*crccopy.Block:][:crccopy.Block]); got != want {
					t.Errorf("CRC %#x of block %d of %d B, want %#x", got, i, len(s.data), want)
				}
			}
		}
		if !bytes.Equal(all[2].data, c.arena[77:][:3*4096+5]) {
			t.Error("wrong bytes")
		}
		b.Reset()
	}
}
