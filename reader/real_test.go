package reader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma/local"
	"github.com/rmatail/rmatail/reader"
)

const (
	smallArena = 2 << 20 // slots are reused all the time
	largeArena = 32 << 20
)

// TestRealBytes: producers append with random batch sizes, readers of different
// speeds follow over shm and tcp; every byte is right, in order, without a gap.
func TestRealBytes(t *testing.T) {
	everyByte(t, nodeConfig{}, []reader.Config{{Transport: reader.SHM}, {Transport: reader.TCP}, {Transport: reader.Auto}}, 24<<20)
}

// everyByte is the same for any transports.
func everyByte(t *testing.T, base nodeConfig, configs []reader.Config, perShard uint64) {
	const shards = 3
	var checked atomic.Uint64
	for _, arena := range []uint64{smallArena, largeArena} {
		cfg := base
		cfg.Arena = arena
		n := startNode(t, cfg)
		by := map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for s := range shards {
			w := &writer{t: t, shard: fmt.Sprintf("bytes/%d", s)}
			w.append(n, 1)
			for i, rc := range configs {
				rc.Server = n.Listen
				_, r := w.open(rc, reader.Earliest())
				all.Go(func() {
					got, err := follow(t.Context(), r, perShard, time.Duration(i)*time.Millisecond)
					if err != nil {
						t.Errorf("%v reader of %s, arena of %d MiB: %v", rc.Transport, w.shard, arena>>20, err)
					}
					mu.Lock()
					defer mu.Unlock()
					for source, bytes := range got {
						by[source] += bytes
						checked.Add(uint64(bytes))
					}
				})
			}
			all.Go(func() { produce(t, w, n, perShard, uint64(s)) })
		}
		all.Wait()
		t.Logf("arena of %d MiB: %v", arena>>20, by)
		n.kill()
	}
	if !t.Failed() {
		t.Logf("report: %.3f GB checked, 0 wrong bytes, 0 gaps", float64(checked.Load())/1e9)
	}
}

// produce appends batches of 1 byte to 256 KiB until the shard has total bytes.
func produce(t *testing.T, w *writer, n *node, total, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := wire.Dial(ctx, n.Listen, wire.Options{Name: "test-writer"})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	rng := rand.New(rand.NewPCG(seed, 3))
	for remote := durable.NewRemote(c); w.pos < total && !t.Failed(); {
		size := 1 + rng.IntN([]int{100, 5000, 40_000, 256 << 10}[rng.IntN(4)])
		w.appendVia(ctx, remote, min(size, int(total-w.pos)))
	}
}

// follow reads to a position, with a pause now and then for slow readers.
func follow(ctx context.Context, r *reader.Reader, to uint64, pause time.Duration) (map[string]int, error) {
	by := map[string]int{}
	for step := uint64(1 << 20); r.Position() < to; {
		got, err := drain(ctx, r, min(to, r.Position()+step), 2*time.Minute)
		for source, n := range got {
			by[source] += n
		}
		if err != nil {
			return by, err
		}
		if pause > 0 {
			<-time.After(20 * pause)
		}
	}
	return by, nil
}

// TestRealStoppedNode: with the serving process stopped, a reader on shm reads
// all that is published; one on tcp times out and goes to the durable store.
func TestRealStoppedNode(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "stopped/0"}
	w.append(n, 100)
	_, shm := w.open(reader.Config{Server: n.Listen, Transport: reader.SHM}, reader.Earliest())
	_, tcp := w.open(reader.Config{Server: n.Listen, Dir: n.Dir, Transport: reader.TCP}, reader.Earliest())
	w.read(shm, 10*time.Second)
	w.read(tcp, 10*time.Second)
	w.append(n, 5_000_000/5, 5_000_000/5, 5_000_000/5)
	n.signal(syscall.SIGSTOP)
	n.stopped()
	if by := w.read(shm, 20*time.Second); by["shm"] != 3_000_000 {
		t.Fatalf("shm reader of a stopped node got %v", by)
	}
	if by := w.read(tcp, 20*time.Second); by["durable"] != 3_000_000 {
		t.Fatalf("tcp reader of a stopped node got %v", by)
	}
	n.signal(syscall.SIGCONT)
	w.append(n, 1000)
	deadline := time.Now().Add(10 * time.Second)
	for got := 0; got == 0; { // back to tcp by itself
		if time.Now().After(deadline) {
			t.Fatal("10 s after the node went on, the reader is not back on tcp")
		}
		got = w.read(tcp, 10*time.Second)["tcp"]
		w.append(n, 100)
	}
}

// TestRealServerIdle: over 100,000 one-sided reads the serving process uses no
// more processor time than it does in the same time without them.
func TestRealServerIdle(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "idle/0"}
	w.append(n, 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := wire.Dial(ctx, n.Listen, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := local.Dial(ctx, c.Hello().ShmPath, c.Hello().Epoch)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	noBusier(t, n, 0, func() int {
		const batches, each = 2000, 64
		b, err := m.NewBatch(each * 4096)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		for range batches {
			for i := range each {
				b.Add(uint64(i)*4096, 4096)
			}
			if err := errors.Join(b.Post(time.Now().Add(time.Second)), b.Wait()); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
		return batches * each
	})
}

// noBusier compares what the node does while it is read with what it does in an
// equally long idle time before: its processor time, and how often its threads
// wake up. The reads are repeated until they have taken long enough to compare.
//
// strays is the share of the time that may be charged to the node although it did
// nothing for it: soft-RoCE answers in softirqs, which the kernel charges to
// whatever thread they interrupt (schedstat counts them in). Wake-ups know no
// such strays: a process that serves must run, and must be woken for it.
func noBusier(t *testing.T, n *node, strays float64, reads func() int) {
	t.Helper()
	const window = 3 * time.Second
	measure := func(during func()) (cpu time.Duration, wakes int) {
		cpu, wakes = n.cpu(), n.wakes()
		during()
		return n.cpu() - cpu, n.wakes() - wakes
	}
	idle, idleWakes := measure(func() { <-time.After(window) })
	count := 0
	var took time.Duration
	busy, busyWakes := measure(func() {
		for start := time.Now(); took < window || count < 100_000; took = time.Since(start) {
			count += reads()
		}
	})
	times := float64(took) / float64(window)
	t.Logf("report: %d one-sided reads in %v: the node used %v and woke %d times; idle for %v: %v and %d times",
		count, took.Round(time.Millisecond), busy, busyWakes, window, idle, idleWakes)
	if most := time.Duration(2*times*float64(idle)+strays*float64(took)) + 20*time.Millisecond; busy > most {
		t.Errorf("the node used %v during %d one-sided reads, want at most %v", busy, count, most)
	}
	if most := int(2*times*float64(idleWakes)) + 200; busyWakes > most || busyWakes > count/10 {
		t.Errorf("the node woke %d times during %d one-sided reads, want at most %d", busyWakes, count, most)
	}
}

// TestRealKilledNode: a node that is killed and restarted at the same address
// costs its readers neither a byte nor their way back to memory.
func TestRealKilledNode(t *testing.T) {
	for _, transport := range []reader.Transport{reader.SHM, reader.TCP} {
		t.Run(transport.String(), func(t *testing.T) {
			n := startNode(t, nodeConfig{Arena: largeArena})
			killed(t, n, reader.Config{Transport: transport}, transport.String())
		})
	}
}

// killed is the same for any transport.
func killed(t *testing.T, n *node, cfg reader.Config, want string) {
	w := &writer{t: t, shard: "killed/0"}
	w.append(n, 100)
	cfg.Server, cfg.Dir = n.Listen, n.Dir
	c, r := w.open(cfg, reader.Earliest())
	if by := w.read(r, 10*time.Second); by[want] == 0 {
		t.Fatalf("before the kill: %v, %+v", by, c.Stats())
	}
	w.append(n, 1<<20, 1<<20)
	if _, err := drain(t.Context(), r, 1<<20, 20*time.Second); err != nil { // in the middle of a backlog
		t.Fatal(err)
	}
	n.kill()
	gone := time.Now()
	w.read(r, 10*time.Second)
	if d := time.Since(gone); d > 2*time.Second {
		t.Fatalf("the reader went on after %v, want within 2 s", d)
	}
	n.start()
	back(t, n, w, r, want)
}

// back waits until the reader gets bytes from a memory transport again.
func back(t *testing.T, n *node, w *writer, r *reader.Reader, want string) {
	t.Helper()
	start := time.Now()
	for {
		w.append(n, 1000)
		if by := w.read(r, 10*time.Second); by[want] > 0 {
			t.Logf("report: back on %s after %v", want, time.Since(start).Round(time.Millisecond))
			return
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("not back on %s after 10 s", want)
		}
	}
}

// TestRealSealedShardEnds, with Read and WriteTo on the way.
func TestRealStreams(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "stream/0"}
	w.append(n, 10_000, 300_000)
	_, r := w.open(reader.Config{Server: n.Listen}, reader.Earliest())
	p := make([]byte, 7)
	for pos := uint64(0); pos < 20_000; {
		m, err := r.Read(p)
		if err != nil || reader.WrongAt(p[:m], pos) >= 0 {
			t.Fatalf("Read at %d: %d bytes, %v", pos, m, err)
		}
		if pos += uint64(m); pos != r.Position() {
			t.Fatalf("Position is %d after Read up to %d", r.Position(), pos)
		}
	}
	out := &checkingWriter{pos: r.Position(), until: w.pos}
	if _, err := r.WriteTo(out); !errors.Is(err, errEnough) {
		t.Fatalf("WriteTo: %v", err)
	}
	if out.pos != w.pos || out.wrong {
		t.Fatalf("WriteTo reached %d of %d, wrong bytes: %v", out.pos, w.pos, out.wrong)
	}
}

var errEnough = errors.New("enough")

type checkingWriter struct {
	pos, until uint64
	wrong      bool
}

func (w *checkingWriter) Write(p []byte) (int, error) {
	w.wrong = w.wrong || reader.WrongAt(p, w.pos) >= 0
	if w.pos += uint64(len(p)); w.pos >= w.until {
		return len(p), errEnough
	}
	return len(p), nil
}

// TestRealErrors: what cannot be opened says so with a typed error.
func TestRealErrors(t *testing.T) {
	n := startNode(t, nodeConfig{})
	w := &writer{t: t, shard: "errors/0"}
	w.append(n, 100)
	c, _ := w.open(reader.Config{Server: n.Listen}, reader.Latest())
	ctx := t.Context()
	for shard, want := range map[string]error{"errors/1": wire.ErrUnknownShard, "nothing/0": wire.ErrUnknownShard} {
		if _, err := c.Reader(ctx, shard, reader.Earliest()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", shard, err, want)
		}
	}
	if _, err := c.Reader(ctx, "errors/0", reader.At(101)); !errors.Is(err, reader.ErrBeyond) {
		t.Errorf("beyond the end: %v", err)
	}
	if _, err := reader.Open(ctx, reader.Config{}); !errors.Is(err, reader.ErrConfig) {
		t.Errorf("empty configuration: %v", err)
	}
	nobody := "127.0.0.1:1"
	if _, err := reader.Open(ctx, reader.Config{Server: nobody}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no node and no directory: %v", err)
	}
	away, err := reader.Open(ctx, reader.Config{Server: nobody, Dir: n.Dir})
	if err != nil {
		t.Fatalf("no node but a directory: %v", err)
	}
	defer away.Close()
	r, err := away.Reader(ctx, "errors/0", reader.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if by := w.read(r, 10*time.Second); by["durable"] != 100 {
		t.Errorf("no node but a directory: %v", by)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := r.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing to read: %v", err)
	}
	r.Close()
	if _, err := r.Next(ctx); !errors.Is(err, reader.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, reader.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
}

// TestRealRetention: a segment that is gone is a gap with the first kept position.
func TestRealRetention(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: smallArena})
	w := &writer{t: t, shard: "kept/0"}
	w.append(n, 100)
	c, r := w.open(reader.Config{Server: n.Listen}, reader.Earliest())
	w.read(r, 10*time.Second)
	segments, err := filepath.Glob(filepath.Join(n.Dir, "kept", "0000", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	n.kill()
	if err := os.Remove(segments[0]); err != nil {
		t.Fatal(err)
	}
	n.start()
	w.append(n, 200)
	eventually(t, 10*time.Second, "the node to be connected again", func() bool { return c.Stats().Transport != "none" })
	_, err = c.Reader(t.Context(), w.shard, reader.At(50))
	var gap *reader.GapError
	if !errors.As(err, &gap) || gap.First != 100 || gap.Want != 50 {
		t.Fatalf("below retention: %v", err)
	}
	if by := w.read(r, 10*time.Second); by["shm"]+by["tcp"]+by["durable"] != 200 {
		t.Fatalf("a reader above the gap got %v", by)
	}
}
