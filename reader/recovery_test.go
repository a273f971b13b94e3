package reader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma/local"
)

// bench is a Cluster over a fabric, and a writer.
func bench(t *testing.T, as Source, size int) (*Cluster, *fabricWriter) {
	f := newFabric(t, 8<<20, 5, faults{})
	w := newFabricWriter(t, f)
	w.append(size)
	w.publish(0)
	return fabricClusterAs(t, f, w.store, as), w
}

func openAt(t *testing.T, c *Cluster, from From) *Reader {
	t.Helper()
	r, err := c.Reader(t.Context(), "fabric/3", from)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFabricReadThenNext: Read takes a part of what was fetched, the other calls
// get the rest, and Position says at each moment what comes next.
func TestFabricReadThenNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := bench(t, FromSHM, 1000)
		defer c.Close()
		r := openAt(t, c, Earliest())
		defer r.Close()
		pos := uint64(0)
		got := func(data []byte, err error) {
			t.Helper()
			if err != nil || len(data) == 0 || wrongAt(data, pos) >= 0 {
				t.Fatalf("at %d: %d bytes, %v", pos, len(data), err)
			}
			if pos += uint64(len(data)); r.Position() != pos {
				t.Fatalf("position %d after the bytes up to %d", r.Position(), pos)
			}
		}
		p := make([]byte, 10)
		n, err := r.Read(p)
		got(p[:n], err)
		b, err := r.Next(t.Context())
		if b.Position != pos || b.Source != FromSHM {
			t.Fatalf("batch at %d from %v, want %d from shm", b.Position, b.Source, pos)
		}
		got(b.Data, err)
		w.append(1000)
		w.publish(0)
		n, err = r.Read(p)
		got(p[:n], err)
		for _, take := range []int{3, 0, 5} { // writers that take a part
			w := &shortWriter{take: take}
			if _, err := r.WriteTo(w); !errors.Is(err, w.want()) {
				t.Fatalf("WriteTo: %v", err)
			}
			if take > 0 {
				got(w.Bytes(), nil)
			}
		}
		b, err = r.Next(t.Context())
		got(b.Data, err)
		if pos != 2000 {
			t.Fatalf("ended at %d", pos)
		}
	})
}

// shortWriter takes some bytes and then fails: with an error of its own, or
// without if it took an odd number.
type shortWriter struct {
	bytes.Buffer
	take int
}

func (w *shortWriter) want() error {
	if w.take%2 == 0 {
		return errBroken
	}
	return io.ErrShortWrite
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n, _ := w.Buffer.Write(p[:w.take])
	if w.take%2 == 0 {
		return n, errBroken
	}
	return n, nil
}

// TestFabricPathComesBack: the only path fails once. A sealed shard, of which no
// more news will come, is read over it again after its rest, and not from the store.
func TestFabricPathComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 8<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(1000)
		w.store.set(func(s *positionStore) { s.info.Sealed = true })
		w.publish(layout.FlagSealed)
		c := bareCluster(t, w.store)
		defer c.Close()
		via, err := newPath(f, FromTCP, f.arena.Epoch(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c.only().give(via)
		r := openAt(t, c, Earliest())
		defer r.Close()
		poll := newPoller(c) // once: between two polls no news comes
		defer poll.release()
		poll.poll(time.Now())
		via.failed(time.Now(), errBroken)
		start := time.Now()
		b, err := r.Next(t.Context())
		if err != nil || b.Source != FromTCP || time.Since(start) > 2*pathRestMin {
			t.Fatalf("%d bytes from %v after %v, %v", len(b.Data), b.Source, time.Since(start), err)
		}
	})
}

// TestFabricNoBuffers: the memory of a connection is lent to other Readers. The
// path is not blamed, nor are its bytes fetched from elsewhere at once.
func TestFabricNoBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 8<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(3 << 20)
		w.publish(0)
		c := bareCluster(t, w.store)
		defer c.Close()
		m := &scarceMemory{fabric: f}
		via, err := newPath(m, FromTCP, f.arena.Epoch(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c.only().give(via)
		c.tasks.Go(newPoller(c).run)
		r := openAt(t, c, Earliest())
		defer r.Close()
		synctest.Wait()
		m.most.Store(1) // nothing for half a second, and then little
		go func() {
			<-time.After(time.Second / 2)
			m.most.Store(64 << 10)
		}()
		for r.Position() < w.pos {
			b, err := r.Next(t.Context())
			if err != nil || b.Source != FromTCP || wrongAt(b.Data, b.Position) >= 0 {
				t.Fatalf("%d bytes at %d from %v, %v", len(b.Data), b.Position, b.Source, err)
			}
		}
		s := c.Stats()
		if s.Retries["buffers"] == 0 || s.Failures["tcp"] != 0 || r.f.page.silent.Load() {
			t.Fatalf("retries %v, failures %v, blind %v", s.Retries, s.Failures, r.f.page.silent.Load())
		}
	})
}

// scarceMemory has no large batches.
type scarceMemory struct {
	*fabric
	most atomic.Int64 // 0: no limit
}

func (m *scarceMemory) newBatch(size int) (batch, error) {
	if most := m.most.Load(); most > 0 && int64(size) > most {
		return nil, local.ErrNoBuffers
	}
	return m.fabric.newBatch(size)
}

// TestFabricDurableOnly: without a cache nothing is waited for, and a backlog is
// read as fast as the store gives it.
func TestFabricDurableOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, server := range map[string]string{"no server": "", "server away": "node:1"} {
			s := &positionStore{}
			s.info.Incarnation, s.info.Length = 77, 20<<20
			c := bareCluster(t, s)
			if server == "" {
				c.roster.Store(nil)
			}
			r := openAt(t, c, Earliest())
			start := time.Now()
			for r.Position() < 20<<20 {
				if _, err := r.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			most := statRestMin + time.Millisecond
			if server != "" {
				most += c.cfg.DurableDelay
			}
			if d := time.Since(start); d > most {
				t.Errorf("%s: 20 MiB took %v, want at most %v", name, d, most)
			}
			r.Close()
			c.Close()
		}
	})
}

// TestFabricGoesOnAheadOfTheStore: a consumer goes on where the cache had brought
// it, at a position that the store shows only later.
func TestFabricGoesOnAheadOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := bench(t, FromTCP, 10_000)
		defer c.Close()
		w.store.set(func(s *positionStore) { s.info.Length = 4000 })
		r := openAt(t, c, At(7000))
		defer r.Close()
		for range 2 {
			b, err := r.Next(t.Context())
			if err != nil || b.Position != 7000 || wrongAt(b.Data, 7000) >= 0 {
				t.Fatalf("%d bytes at %d, %v", len(b.Data), b.Position, err)
			}
			if err := r.Seek(t.Context(), At(7000)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Reader(t.Context(), "fabric/3", At(10_001)); !errors.Is(err, ErrBeyond) {
			t.Errorf("beyond both: %v", err)
		}
		if err := r.Seek(t.Context(), At(10_001)); !errors.Is(err, ErrBeyond) {
			t.Errorf("Seek beyond both: %v", err)
		}
		w.store.set(func(s *positionStore) { s.info.Incarnation = 78 })
		if _, err := c.Reader(t.Context(), "fabric/3", At(7000)); !errors.Is(err, ErrBeyond) {
			t.Errorf("of another incarnation than the cache's: %v", err)
		}
	})
}

// TestFabricCloseEndsADurableRead that hangs, at once; so does the Cluster's.
func TestFabricCloseEndsADurableRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 2 {
			s := endless(77)
			s.read = func(ctx context.Context, _ uint64, _ []byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			c := bareCluster(t, s)
			c.roster.Store(nil)
			r := openAt(t, c, Earliest())
			var next sync.WaitGroup
			next.Go(func() {
				if _, err := r.Next(t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("Next: %v", err)
				}
			})
			synctest.Wait()
			start := time.Now()
			if i == 0 {
				r.Close()
			} else {
				c.Close()
			}
			next.Wait()
			if d := time.Since(start); d != 0 {
				t.Errorf("after %v", d)
			}
			r.Close()
			r.Close()
			c.Close()
			c.Close()
			if _, err := c.Reader(t.Context(), "fabric/3", Earliest()); !errors.Is(err, ErrClosed) {
				t.Errorf("a Reader of a closed Cluster: %v", err)
			}
		}
	})
}

// TestFabricRecreatedIsNotRead: a shard is made again while a Reader of the old one
// has a backlog that the cache has evicted: it ends, without a byte of the new one.
func TestFabricRecreatedIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := bench(t, FromTCP, 1000)
		defer c.Close()
		r := openAt(t, c, Earliest())
		defer r.Close()
		synctest.Wait()
		c.only().give()
		w.store.set(func(s *positionStore) { s.info.Incarnation, s.info.Length = 78, 5000 })
		if b, err := r.Next(t.Context()); !errors.Is(err, ErrRecreated) {
			t.Fatalf("%d bytes of the new shard, %v", len(b.Data), err)
		}
	})
}

// TestFabricPollManyPages: more pages than fit a batch, one of them nowhere: the
// others are polled all the same, and it costs them no round trip of their own.
func TestFabricPollManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 64<<20, 5, faults{})
		w := newFabricWriter(t, f)
		c := bareCluster(t, w.store)
		defer c.Close()
		via, err := newPath(f, FromTCP, f.arena.Epoch(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c.only().give(via)
		var readers []*Reader
		for i := range 3 * pollPages / 2 {
			n := uint32(i * layout.EntriesPerPage)
			x := newFabricWriter(t, f)
			x.shard.Number, x.store = n, w.store
			x.tail = prefixAt(x.hash(), 0)
			x.append(10)
			if i != 70 {
				x.publish(0)
			}
			r, err := c.Reader(t.Context(), x.shard.String(), At(0))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			readers = append(readers, r)
		}
		poll := newPoller(c)
		defer poll.release()
		const polls = 500
		for range polls { // as often as while bytes flow
			poll.poll(time.Now())
			<-time.After(c.cfg.PollMin)
		}
		for i, r := range readers {
			if pub := r.f.published(); (pub.length == 10) != (i != 70) {
				t.Errorf("page %d: length %d", i, pub.length)
			}
		}
		lookups := int(c.Stats().Requests) - polls*(len(readers)-1)
		if most := 2*len(readers) + 2*20; lookups < 2*len(readers) || lookups > most {
			t.Errorf("%d look-ups in %d polls, want at most %d", lookups, polls, most)
		}
		for _, r := range readers {
			r.Close()
		}
		if n := len(*c.pages.Load()); n != 0 {
			t.Errorf("%d pages are polled for nobody", n)
		}
	})
}

func TestPathFailures(t *testing.T) {
	f := newFabric(t, 4<<20, 1, faults{})
	p := &path{memory: f}
	for range 1000 { // one event, felt by many
		p.failed(at(0), errBroken)
	}
	if p.up(at(49)) || !p.up(at(50)) {
		t.Fatal("one failure rests a path for 50 ms")
	}
	for i, rest := range []int{100, 200, 400, 800, 1600, 2000, 2000, 2000} {
		p.failed(at(10_000*(i+1)), errBroken)
		if p.up(at(10_000*(i+1)+rest-1)) || !p.up(at(10_000*(i+1)+rest)) {
			t.Fatalf("failure %d: want a rest of %d ms", i+2, rest)
		}
	}
	p.worked()
	p.failed(at(1_000_000), errBroken)
	if !p.up(at(1_000_050)) {
		t.Fatal("after success the rests begin anew")
	}
}
