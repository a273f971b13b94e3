package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// follow reads a shard to its sealed end and checks every byte. It returns how
// many bytes came from each source.
func readAll(t *testing.T, c *Cluster, from From, pause time.Duration) (by [sources]int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	r, err := c.Reader(ctx, "fabric/3", from)
	if err != nil {
		t.Error(err)
		return by
	}
	defer r.Close()
	pos := r.Position()
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			if pub := r.f.published(); pos != pub.length && pos != r.f.mu.stored {
				t.Errorf("ended at %d of %d", pos, pub.length)
			}
			return by
		}
		if err != nil {
			t.Errorf("at %d: %v; %+v", pos, err, c.Stats())
			return by
		}
		if b.Position != pos {
			t.Errorf("batch begins at %d, want %d", b.Position, pos)
			return by
		}
		if i := wrongAt(b.Data, pos); i >= 0 {
			t.Errorf("wrong byte at %d from %v (batch of %d at %d)", pos+uint64(i), b.Source, len(b.Data), pos)
			return by
		}
		pos += uint64(len(b.Data))
		by[b.Source] += len(b.Data)
		if pause > 0 {
			<-time.After(pause)
		}
	}
}

// TestFabricLies lets every kind of lie happen, alone and together: no wrong
// byte is ever delivered, each reader reaches the end, each kind was injected
// and counted under a reason.
func TestFabricLies(t *testing.T) {
	all := faults{tear64: .05, tear1024: .05, tear4096: .05, stale: .05, swap: .05, flip: .05, zero: .05, deadline: .04, broken: .04}
	for name, c := range map[string]struct {
		mix     faults
		reasons []reason
	}{
		"none":     {faults{}, nil},
		"tear64":   {faults{tear64: .5}, []reason{reasonTorn}},
		"tear1024": {faults{tear1024: .5}, []reason{reasonTorn}},
		"tear4096": {faults{tear4096: .5}, []reason{reasonTorn}},
		"stale":    {faults{stale: .4}, []reason{reasonStale}},
		"swap":     {faults{swap: .4}, []reason{reasonTorn}},
		"flip":     {faults{flip: .4}, []reason{reasonTorn}},
		"zero":     {faults{zero: .4}, []reason{reasonEntry}},
		"deadline": {faults{deadline: .2}, []reason{reasonDeadline}},
		"broken":   {faults{broken: .2}, []reason{reasonTransport}},
		"all":      {all, []reason{reasonTorn, reasonDeadline, reasonTransport}},
	} {
		// The small arena reuses slots all the time; the other one is read ahead.
		for arena, as := range map[uint64]Source{2 << 20: FromSHM, 12 << 20: FromTCP} {
			t.Run(fmt.Sprintf("%s/%dMiB", name, arena>>20), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { lie(t, arena, as, c.mix, c.reasons) })
			})
		}
	}
}

func lie(t *testing.T, arena uint64, as Source, mix faults, want []reason) {
	const seed, total = 11, 4 << 20
	f := newFabric(t, arena, seed, faults{})
	w := newFabricWriter(t, f)
	w.append(100)
	w.publish(0)
	f.keep()
	c := fabricClusterAs(t, f, w.store, as)
	defer c.Close()
	f.set(mix)
	var readers sync.WaitGroup
	var by [3][sources]int
	for i, from := range []From{Earliest(), Latest(), At(50)} {
		readers.Go(func() { by[i] = readAll(t, c, from, time.Duration(i)*3*time.Millisecond) })
	}
	w.run(seed, total)
	readers.Wait()
	s := c.Stats()
	for kind, p := range map[string]float64{"tear64": mix.tear64, "tear1024": mix.tear1024, "tear4096": mix.tear4096, "stale": mix.stale,
		"swap": mix.swap, "flip": mix.flip, "zero": mix.zero, "deadline": mix.deadline, "broken": mix.broken} {
		if p > 0 && f.injected[kind] == 0 {
			t.Errorf("%s was never injected", kind)
		}
	}
	for _, r := range want {
		if s.Retries[r.String()] == 0 {
			t.Errorf("nothing was counted under %v: %v", r, s.Retries)
		}
	}
	if arena > total && mix == (faults{}) && (by[0][FromDurable] != 0 || s.Retries["torn"]+s.Retries["moved"] != 0) {
		t.Errorf("an honest fabric and a large arena, but %d bytes from the store and retries %v", by[0][FromDurable], s.Retries)
	}
	// While a read runs into its deadline the writer fills the small arena twice: whether
	// another one comes in time is a matter of chance.
	if s.DeliveredBy[as.String()] == 0 && (arena > total || mix.deadline == 0) {
		t.Errorf("nothing came from the cache: %v", s.DeliveredBy)
	}
	t.Logf("by source %v, retries %v, durable reads %d, requests %d", s.DeliveredBy, s.Retries, w.store.reads, s.Requests)
}

// TestFabricCacheAwayAndBack takes the memory away in the middle: the bytes come
// from the store, not before they have been missing for the delay, in few reads;
// and from memory again once it answers.
func TestFabricCacheAwayAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 32<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(1000)
		w.publish(0)
		c := fabricCluster(t, f, w.store)
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		r, err := c.Reader(ctx, "fabric/3", Earliest())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		read := func(want Source) {
			t.Helper()
			for r.Position() < w.pos {
				b, err := r.Next(ctx)
				if err != nil || b.Source != want || wrongAt(b.Data, b.Position) >= 0 {
					t.Fatalf("%d bytes at %d from %v, %v; want %v", len(b.Data), b.Position, b.Source, err, want)
				}
			}
		}
		read(FromSHM)
		f.set(faults{deadline: 1})
		w.append(5000)
		w.publish(0)
		gone := time.Now()
		read(FromDurable)
		if d := time.Since(gone); d < c.cfg.DurableDelay || d > 2*time.Second {
			t.Fatalf("the store was used after %v, want 1 to 2 s", d)
		}
		if w.store.reads != 1 {
			t.Fatalf("%d durable reads for one gap", w.store.reads)
		}
		f.set(faults{})
		<-time.After(3 * time.Second) // the longest rest of a path
		w.append(5000)
		w.publish(0)
		read(FromSHM)
	})
}

// TestFabricStampede: many Readers of one shard lose the cache at once. The store
// sees the reads of one, not of all.
func TestFabricStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 8<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(100)
		w.publish(0)
		c := fabricCluster(t, f, w.store)
		defer c.Close()
		f.set(faults{broken: 1})
		var readers sync.WaitGroup
		for range 64 {
			readers.Go(func() { readAll(t, c, Earliest(), 0) })
		}
		w.run(9, 4<<20)
		readers.Wait()
		if got, most := w.store.reads, 10; got > most {
			t.Fatalf("%d durable reads for 64 readers of 4 MiB, want at most %d", got, most)
		}
	})
}

// TestFabricGap: bytes that fell out of retention are an error with the first
// kept position, and Seek goes on there.
func TestFabricGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 2<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(3 << 20) // the arena holds the last part only
		w.publish(0)
		c := fabricCluster(t, f, w.store)
		defer c.Close()
		ctx := context.Background()
		r, err := c.Reader(ctx, "fabric/3", At(10))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		w.store.set(func(s *positionStore) { s.info.First = 1 << 20 })
		_, err = r.Next(ctx)
		var gap *GapError
		if !errors.As(err, &gap) || !errors.Is(err, ErrGap) || gap.Want != 10 || gap.First != 1<<20 || gap.Length != 3<<20 {
			t.Fatalf("got %v", err)
		}
		if _, again := r.Next(ctx); again != err {
			t.Fatalf("the next call says %v", again)
		}
		if err := r.Seek(ctx, Earliest()); err != nil {
			t.Fatal(err)
		}
		if b, err := r.Next(ctx); err != nil || b.Position != 1<<20 || wrongAt(b.Data, b.Position) >= 0 {
			t.Fatalf("after Seek: %d bytes at %d, %v", len(b.Data), b.Position, err)
		}
		if _, err := c.Reader(ctx, "fabric/3", At(5)); !errors.Is(err, ErrGap) {
			t.Fatalf("opening below retention: %v", err)
		}
		if _, err := c.Reader(ctx, "fabric/3", At(4<<20)); !errors.Is(err, ErrBeyond) {
			t.Fatalf("opening beyond the end: %v", err)
		}
	})
}

// TestFabricRecreated: a shard made again under its name ends the Readers of the
// old one.
func TestFabricRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 2<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(100)
		w.publish(0)
		c := fabricCluster(t, f, w.store)
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := c.Reader(ctx, "fabric/3", At(100))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		again := newFabricWriter(t, f)
		again.store = w.store
		w.store.set(func(s *positionStore) { s.info.Incarnation, s.info.Length = 78, 0 })
		again.tail = prefixAt(again.hash(), 0)
		again.append(5000)
		again.publish(0)
		if _, err := r.Next(ctx); !errors.Is(err, ErrRecreated) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestFabricAbsentShard: what the cache has never had does not wait for it.
func TestFabricAbsentShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 2<<20, 5, faults{})
		w := newFabricWriter(t, f)
		w.append(5000) // and not published
		c := fabricCluster(t, f, w.store)
		defer c.Close()
		start := time.Now()
		r, err := c.Reader(t.Context(), "fabric/3", Earliest())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := r.Next(t.Context())
		if err != nil || len(b.Data) != 5000 || b.Source != FromDurable || wrongAt(b.Data, 0) >= 0 {
			t.Fatalf("%d bytes from %v, %v", len(b.Data), b.Source, err)
		}
		if d := time.Since(start); d > 200*time.Millisecond {
			t.Fatalf("a cold shard took %v", d)
		}
	})
}
