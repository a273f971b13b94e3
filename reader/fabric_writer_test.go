package reader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// positionStore is a durable store whose content follows from the position. It
// counts its reads and can be taken away.
type positionStore struct {
	mu    sync.Mutex
	info  durable.Info
	reads int
	err   error
}

func (s *positionStore) Stat(context.Context, string) (durable.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, s.err
}

func (s *positionStore) ReadAt(_ context.Context, _ string, pos uint64, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.reads++; {
	case s.err != nil:
		return 0, s.err
	case pos < s.info.First:
		return 0, fmt.Errorf("%w: %d", wire.ErrOutOfRetention, pos)
	case pos > s.info.Length:
		return 0, fmt.Errorf("%w: %d", wire.ErrBeyond, pos)
	}
	n := min(len(p), int(s.info.Length-pos))
	fill(p[:n], pos)
	return n, nil
}

func (s *positionStore) List(context.Context, string, int) ([]durable.Entry, error) { return nil, nil }

func (s *positionStore) set(change func(*positionStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// fabricWriter appends to the store, then to the arena, then publishes, as a
// producer does.
type fabricWriter struct {
	t     testing.TB
	shard layout.Shard
	store *positionStore
	f     *fabric
	pos   uint64
	tail  prefix
	beat  uint64
}

func newFabricWriter(t testing.TB, f *fabric) *fabricWriter {
	w := &fabricWriter{t: t, shard: layout.Shard{Stream: "fabric", Number: 3}, store: &positionStore{}, f: f}
	w.store.info.Incarnation = 77
	w.tail = prefixAt(w.hash(), 0)
	return w
}

func (w *fabricWriter) hash() layout.Hash { return w.shard.Hash(w.store.info.Incarnation) }

// append makes n bytes durable and puts them, without publishing.
func (w *fabricWriter) append(n int) {
	data := make([]byte, n)
	fill(data, w.pos)
	w.put(data)
}

// put makes data, the bytes of the position, durable and puts them.
func (w *fabricWriter) put(data []byte) {
	w.store.set(func(s *positionStore) { s.info.Length += uint64(len(data)) })
	for len(data) > 0 {
		from := int(w.pos % layout.ChunkSize)
		part := data[:min(len(data), layout.ChunkSize-from)]
		crc := w.tail.crc
		if from == 0 {
			crc = layout.SeedCRC(w.hash(), layout.Chunk(w.pos))
		}
		crc = layout.ExtendCRC(crc, part)
		err := w.f.arena.Put(layout.Put{Shard: w.hash(), Chunk: layout.Chunk(w.pos), From: from, CRC: crc, Data: part})
		if err != nil && from > 0 { // evicted meanwhile: the chunk from its start
			whole := make([]byte, from+len(part))
			fill(whole, w.pos-uint64(from))
			err = w.f.arena.Put(layout.Put{Shard: w.hash(), Chunk: layout.Chunk(w.pos), CRC: crc, Data: whole})
		}
		if err != nil {
			w.t.Errorf("put at %d: %v", w.pos, err)
		}
		w.tail = prefix{crc, true}
		w.pos += uint64(len(part))
		data = data[len(part):]
	}
}

func (w *fabricWriter) publish(flags uint16) {
	w.beat++
	e := layout.Entry{Length: w.pos, TailCRC: w.tail.crc, HeartbeatMS: w.beat, Flags: flags, Incarnation: w.store.info.Incarnation}
	if err := w.f.arena.Publish(layout.Publication{Shard: w.shard, Entry: e.Seal(w.hash())}); err != nil {
		w.t.Errorf("publish %d: %v", w.pos, err)
	}
}

// run appends records of random size at a random pace until the shard has total
// bytes, then seals it.
func (w *fabricWriter) run(seed, total uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for w.pos < total {
		w.append(1 + rng.IntN([]int{30, 300, 9000, 120_000}[rng.IntN(4)]))
		w.publish(0)
		if rng.IntN(8) == 0 {
			w.f.keep()
		}
		<-time.After(time.Duration(1+rng.IntN(4000)) * time.Microsecond)
	}
	w.store.set(func(s *positionStore) { s.info.Sealed = true })
	w.publish(layout.FlagSealed)
}
