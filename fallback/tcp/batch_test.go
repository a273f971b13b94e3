package tcp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/rmatail/rmatail/fallback/wire"
)

func TestRealBatch(t *testing.T) {
	conn := path(t, dial(t, serve), Options{})
	b, err := conn.NewBatch(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for round := range 3 { // the memory is used again
		offs := []uint64{0, 1, 4096, arenaSize - 5}
		lens := []int{1, 13, 65536, 5}
		var got [][]byte
		for i, off := range offs {
			p := b.Add(off, lens[i])
			if len(p) != lens[i] || cap(p) != lens[i] || uintptr(unsafe.Pointer(&p[0]))%8 != 0 {
				t.Fatalf("slice of %d B, cap %d", len(p), cap(p))
			}
			got = append(got, p)
		}
		if err := b.Post(soon()); err != nil {
			t.Fatal(err)
		}
		if p := b.Add(0, 1); p != nil {
			t.Error("Add after Post")
		}
		if err := b.Post(soon()); !errors.Is(err, ErrState) {
			t.Errorf("second post: %v", err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		for i, off := range offs {
			if !bytes.Equal(got[i], arena[off:][:lens[i]]) {
				t.Errorf("round %d: wrong bytes of read %d", round, i)
			}
		}
		if err := b.Wait(); !errors.Is(err, ErrState) {
			t.Errorf("second wait: %v", err)
		}
		b.Reset()
		if err := b.Wait(); !errors.Is(err, ErrState) {
			t.Errorf("wait before post: %v", err)
		}
		if err := b.Post(soon()); !errors.Is(err, ErrState) {
			t.Errorf("post of nothing: %v", err)
		}
	}
}

func TestRealAddRefuses(t *testing.T) {
	conn := path(t, dial(t, serve), Options{})
	b, err := conn.NewBatch(5000)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for _, r := range []struct {
		off uint64
		n   int
	}{
		{0, 0}, {0, -1}, {0, 5001}, {0, math.MaxInt}, {0, math.MinInt}, {arenaSize, 1}, {arenaSize - 1, 2}, {arenaSize + 1, 1},
		{math.MaxUint64, 1}, {math.MaxUint64 - 3, 8}, {1 << 63, 4096},
	} {
		if p := b.Add(r.off, r.n); p != nil {
			t.Errorf("read of %d B at %d was planned", r.n, r.off)
		}
	}
	if b.Add(0, 4993) == nil || b.Add(0, 1) != nil {
		t.Error("a second read would begin past the room, at 5,000")
	}
	b.Reset()
	if b.Add(0, 5000) == nil || b.Add(0, 1) != nil {
		t.Error("a batch of 5,000 B has room for exactly that")
	}
	full, _ := batch(t, conn, 1<<20, 1, make([]uint64, 256)...)
	if full.Add(0, 1) != nil {
		t.Error("read 257 was planned")
	}
	full.Release()
}

// Batches above one request's limits are split, by bytes and by number, and all parts are right.
func TestRealSplit(t *testing.T) {
	var requests atomic.Int64
	conn := path(t, dial(t, func(p *peer) {
		var held wire.Replies
		for n := 0; ; {
			h, payload, err := p.Next()
			if err != nil {
				return
			}
			requests.Add(1)
			answer(&held, h, payload)
			if n++; n == 3 { // all parts of the first batch, at once
				n = 0
				if held.Flush(p.Conn) != nil {
					return
				}
			}
		}
	}), Options{MaxBatch: 4 << 20, MaxReads: 1000})
	for _, c := range []struct{ n, reads int }{{640 << 10, 3}, {100, 700}, {1 << 20, 3}, {8, 513}} {
		offs := make([]uint64, c.reads)
		for i := range offs {
			offs[i] = uint64(i) * 9973
		}
		requests.Store(0)
		b, got := batch(t, conn, 4<<20, c.n, offs...)
		if err := b.Post(soon()); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		for i, off := range offs {
			if !bytes.Equal(got[i], arena[off:][:c.n]) {
				t.Fatalf("%d reads of %d B: wrong bytes of read %d", c.reads, c.n, i)
			}
		}
		if n := requests.Load(); n != 3 {
			t.Errorf("%d reads of %d B took %d requests, want 3", c.reads, c.n, n)
		}
		b.Release()
	}
}

func TestRealConcurrentBatches(t *testing.T) {
	c := dial(t, serve)
	conn := path(t, c, Options{BufferBytes: 64 << 20})
	var wg sync.WaitGroup
	var total atomic.Int64
	for g := range 512 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			for range 8 {
				b, err := conn.NewBatch(64 << 10)
				if err != nil {
					t.Error(err)
					return
				}
				type read struct {
					off uint64
					p   []byte
				}
				var reads []read
				for range 1 + rng.IntN(12) {
					n := 1 + rng.IntN(5000)
					off := rng.Uint64N(arenaSize - uint64(n))
					reads = append(reads, read{off, b.Add(off, n)})
				}
				if err := b.Post(soon()); err != nil {
					t.Error(err)
				}
				if err := b.Wait(); err != nil {
					t.Error(err)
				}
				for _, r := range reads {
					if !bytes.Equal(r.p, arena[r.off:][:len(r.p)]) {
						t.Error("wrong bytes")
					}
					total.Add(int64(len(r.p)))
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	t.Logf("%d batches of 512 goroutines, %d MB, every byte right", 512*8, total.Load()/1e6)
}

// A node that answers late, out of order, in pieces: batches with short deadlines are abandoned and their memory reused at once by
// others, which must only ever see their own bytes.
func TestRealSlowNode(t *testing.T) {
	c := dial(t, slow)
	conn := path(t, c, Options{BufferBytes: 2 << 20}) // tight, so that memory is reused
	stop := time.Now().Add(1500 * time.Millisecond)
	var wg sync.WaitGroup
	var good, late atomic.Int64
	for g := range 24 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 6))
			for time.Now().Before(stop) {
				deadline := time.Now().Add(time.Duration(1+rng.IntN(10)) * time.Millisecond)
				if rng.IntN(3) == 0 {
					deadline = soon()
				}
				n, off := 1+rng.IntN(30000), rng.Uint64N(arenaSize-30000)
				b, got := batch(t, conn, 64<<10, n, off, off+1)
				err := b.Post(deadline)
				if err == nil && rng.IntN(8) == 0 {
					b.Release() // in flight
					late.Add(1)
					continue
				}
				if err == nil {
					err = b.Wait()
				}
				switch {
				case err == nil:
					good.Add(1)
					if !bytes.Equal(got[0], arena[off:][:n]) || !bytes.Equal(got[1], arena[off+1:][:n]) {
						t.Error("wrong bytes")
					}
				case errors.Is(err, os.ErrDeadlineExceeded):
					late.Add(1)
				default:
					t.Error(err)
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	t.Logf("%d good, %d late batches", good.Load(), late.Load())
	if good.Load() == 0 || late.Load() == 0 {
		t.Error("both kinds are wanted")
	}
	ping(t, c)
}

func slow(p *peer) {
	rng := rand.New(rand.NewPCG(1, 1))
	for {
		var frames []bytes.Buffer
		for {
			h, payload, err := p.Next()
			if err != nil {
				return
			}
			var r wire.Replies
			answer(&r, h, payload)
			frames = append(frames, bytes.Buffer{})
			_ = r.Flush(&frames[len(frames)-1])
			if !p.Ready() || len(frames) == 10 {
				break
			}
		}
		rng.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
		var out bytes.Buffer
		for i := range frames {
			_, _ = frames[i].WriteTo(&out)
		}
		for out.Len() > 0 {
			if rng.IntN(2) == 0 {
				<-time.After(time.Duration(rng.IntN(2000)) * time.Microsecond)
			}
			if _, err := p.Write(out.Next(1 + rng.IntN(60000))); err != nil {
				return
			}
		}
	}
}

// Memory of a batch that was released in flight goes to the next batch at once; the late reply must not reach it.
func TestRealLateReplyAfterRelease(t *testing.T) {
	late := make(chan struct{})
	c := dial(t, func(p *peer) {
		var r wire.Replies
		h, payload, err := p.Next()
		if err != nil {
			return
		}
		answer(&r, h, payload)
		<-late
		_ = r.Flush(p)
		serve(p)
	})
	conn := path(t, c, Options{BufferBytes: 64 << 10})
	b, got := batch(t, conn, 64<<10, 30000, 0, 50000)
	if _, err := conn.NewBatch(1); !errors.Is(err, ErrNoBuffers) {
		t.Fatalf("a second batch: %v", err)
	}
	if err := b.Post(time.Now().Add(30 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	b.Release()
	again, next := batch(t, conn, 64<<10, 30000, 100000, 200000)
	if &next[0][0] != &got[0][0] {
		t.Fatal("the test wants the same memory again")
	}
	for _, p := range next {
		for i := range p {
			p[i] = 0x55
		}
	}
	close(late)
	ping(t, c)
	for _, p := range next {
		if n := bytes.Count(p, []byte{0x55}); n != len(p) {
			t.Errorf("%d B were overwritten", len(p)-n)
		}
	}
	if err := again.Post(soon()); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err != nil || !bytes.Equal(next[1], arena[200000:][:30000]) {
		t.Errorf("the next batch: %v", err)
	}
	again.Release()
}

func TestRealBrokenNode(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply func(h wire.Header, good []byte) []byte
		want  error
	}{
		{"garbage", func(wire.Header, []byte) []byte { return bytes.Repeat([]byte("no "), 1000) }, wire.ErrHeaderCRC},
		{"half a frame", func(_ wire.Header, good []byte) []byte { return good[:len(good)/2] }, wire.ErrShortFrame},
		{"nothing", func(wire.Header, []byte) []byte { return nil }, io.EOF},
		{"one byte short", func(h wire.Header, good []byte) []byte {
			return append(wire.AppendReply(nil, h, 8191), good[wire.HeaderLen+1:]...)
		}, wire.ErrProtocol},
		{"one byte long", func(h wire.Header, good []byte) []byte {
			return append(append(wire.AppendReply(nil, h, 8193), good[wire.HeaderLen:]...), 0)
		}, wire.ErrProtocol},
	} {
		cl := dial(t, func(p *peer) {
			h, payload, err := p.Next()
			if err != nil {
				t.Error(err)
				return
			}
			var r wire.Replies
			var out bytes.Buffer
			answer(&r, h, payload)
			_ = r.Flush(&out)
			_, _ = p.Write(c.reply(h, out.Bytes()))
		})
		conn := path(t, cl, Options{})
		b, _ := batch(t, conn, 8192, 4096, 0, 8192)
		if err := b.Post(soon()); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); !errors.Is(err, wire.ErrLost) || !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		await(t, conn.Lost(), "loss")
		if !errors.Is(conn.Err(), c.want) {
			t.Errorf("%s: Err is %v", c.name, conn.Err())
		}
		if _, err := conn.NewBatch(1); !errors.Is(err, wire.ErrLost) {
			t.Errorf("%s: batch on a lost path: %v", c.name, err)
		}
		b.Release()
	}
}

func TestRealRefusal(t *testing.T) {
	c := dial(t, func(p *peer) {
		h, _, err := p.Next()
		if err != nil {
			return
		}
		_ = wire.WriteError(p, h, wire.ErrBusy)
		serve(p)
	})
	conn := path(t, c, Options{MaxBatch: 2 << 20})
	b, _ := batch(t, conn, 2<<20, 1<<20, 0, 0) // the second part is answered well
	if err := b.Post(soon()); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("refused: %v", err)
	}
	b.Reset()
	got := b.Add(7, 100)
	if err := b.Post(soon()); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); err != nil || !bytes.Equal(got, arena[7:107]) {
		t.Errorf("after a refusal: %v", err)
	}
	b.Release()
}

// Close ends the path, not the Client, which others use as well.
func TestRealClose(t *testing.T) {
	c := dial(t, serve)
	conn := path(t, c, Options{})
	b, _ := batch(t, conn, 100, 100, 0)
	if conn.Err() != nil {
		t.Error(conn.Err())
	}
	for range 2 {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	await(t, conn.Lost(), "loss")
	if err := b.Post(soon()); !errors.Is(err, ErrClosed) || !errors.Is(conn.Err(), ErrClosed) {
		t.Errorf("post after close: %v", err)
	}
	b.Release()
	if _, err := conn.NewBatch(1); !errors.Is(err, ErrClosed) {
		t.Errorf("batch after close: %v", err)
	}
	ping(t, c)
}

func TestRealDeadlineInPost(t *testing.T) {
	conn := path(t, dial(t, serve), Options{})
	b, _ := batch(t, conn, 100, 100, 0)
	if err := b.Post(time.Now().Add(-time.Second)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("post past its deadline: %v", err)
	}
	b.Release()
}

func TestRealReadsAllocateNothing(t *testing.T) {
	conn := path(t, dial(t, serve), Options{})
	one := func() {
		b, err := conn.NewBatch(64 << 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 16 {
			if b.Add(uint64(i)*12288, 4096) == nil {
				t.Fatal("no room")
			}
		}
		if err := b.Post(soon()); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	for range 20 {
		one()
	}
	if n := testing.AllocsPerRun(500, one); n != 0 && !raceEnabled {
		t.Errorf("%v allocations a batch", n)
	}
}

func TestSlabsStayInTheirBound(t *testing.T) {
	s := &slabs{limit: 64 << 10}
	var out []*Batch
	for range 16 {
		b, err := s.take(4096)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	if _, err := s.take(1); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("17 x 4 KiB of 64: %v", err)
	}
	for _, b := range out[1:] {
		s.put(b)
	}
	// Idle memory of another class makes room, but not more than there is.
	if _, err := s.take(64 << 10); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("64 KiB with 4 in use: %v", err)
	}
	b, err := s.take(20000)
	if err != nil || len(b.mem) != 32<<10 {
		t.Fatalf("%v", err)
	}
	if s.mu.held > s.limit {
		t.Errorf("%d B held", s.mu.held)
	}
	s.put(b)
	if again, err := s.take(32 << 10); err != nil || again != b {
		t.Errorf("the idle one of the class is not taken again: %v", err)
	}
	for size, class := range map[int]int{1: 12, 4096: 12, 4097: 13, 1 << 20: 20, 1<<20 + 1: 21, mostMaxBatch: maxClass} {
		if got := classOf(size); got != class {
			t.Errorf("class of %d B is %d, want %d", size, got, class)
		}
	}
}

func TestRealBatchSizes(t *testing.T) {
	conn := path(t, dial(t, serve), Options{})
	for _, size := range []int{0, -1, 1<<20 + 1, math.MaxInt} {
		if _, err := conn.NewBatch(size); !errors.Is(err, ErrBatchSize) {
			t.Errorf("batch of %d B: %v", size, err)
		}
	}
}

func BenchmarkReal(b *testing.B) {
	for _, c := range []struct {
		name      string
		reads     int
		inFlight  int
		readBytes int
	}{{"depth1_4KiB", 1, 1, 4096}, {"depth16_4KiB", 1, 16, 4096}, {"batch16x4KiB", 16, 1, 4096}, {"batch16x4KiB_depth4", 16, 4, 4096}, {"batch1x1MiB_depth2", 1, 2, 1 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			conn := path(b, dial(b, serve), Options{})
			ring := make([]*Batch, c.inFlight)
			for i := range ring {
				var err error
				if ring[i], err = conn.NewBatch(c.reads * c.readBytes); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(c.reads * c.readBytes))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				bt := ring[i%len(ring)]
				if i >= len(ring) {
					if err := bt.Wait(); err != nil {
						b.Fatal(err)
					}
					bt.Reset()
				}
				for j := range c.reads {
					bt.Add(uint64((i*c.reads+j)*c.readBytes)%(arenaSize-1<<20)&^4095, c.readBytes)
				}
				if err := bt.Post(soon()); err != nil {
					b.Fatal(err)
				}
				i++
			}
			for _, bt := range ring {
				bt.Release()
			}
		})
	}
}
