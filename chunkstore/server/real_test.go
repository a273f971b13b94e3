package server

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// arenaReader reads arena bytes by some transport; layout gives them meaning.
type arenaReader struct {
	read func(off uint64, n int) []byte
	g    layout.Geometry
}

func newArenaReader(t testing.TB, read func(off uint64, n int) []byte) arenaReader {
	t.Helper()
	h, err := layout.ParseHeader(read(0, layout.HeaderSize))
	if err != nil {
		t.Fatal(err)
	}
	return arenaReader{read, h.Geometry}
}

// overTCP reads by ReadArena.
func overTCP(t testing.TB, c *wire.Client) arenaReader {
	t.Helper()
	return newArenaReader(t, func(off uint64, n int) []byte {
		t.Helper()
		req, err := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: off, N: uint32(n)}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Call(t.Context(), wire.OpReadArena, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

// entry finds a shard's entry by layout alone.
func (r arenaReader) entry(t testing.TB, shard layout.Shard) layout.Entry {
	t.Helper()
	g, stream := r.g, layout.StreamHash(shard.Stream)
	for _, set := range g.PageSetsOf(stream, shard.Page()) {
		if way, _, ok := layout.FindIdentity(r.read(g.PageSet(set), layout.SetSize), stream, shard.Page()); ok {
			page := r.read(g.PageSlot(set*layout.Ways+uint32(way)), layout.PageSize)
			return layout.ParseEntry(page, shard.EntryOffset())
		}
	}
	return layout.Entry{}
}

// chunk returns a chunk's verified bytes by layout alone, nil when it is not there.
func (r arenaReader) chunk(t testing.TB, hash layout.Hash, chunk uint64) []byte {
	t.Helper()
	g, extent := r.g, chunk/layout.ChunksPerExtent
	for _, set := range g.ExtentSetsOf(hash, extent) {
		way, generation, ok := layout.FindIdentity(r.read(g.ExtentSet(set), layout.SetSize), hash, extent)
		if !ok {
			continue
		}
		index, i := set*layout.Ways+uint32(way), int(chunk%layout.ChunksPerExtent)
		d := layout.ParseDescriptor(r.read(g.Descriptors(index), layout.DescriptorsSize), i)
		if !d.Of(generation) {
			return nil
		}
		data := r.read(g.ExtentSlot(index)+uint64(i)*layout.ChunkSize, d.Valid())
		if layout.ExtendCRC(layout.SeedCRC(hash, chunk), data) != d.CRC() {
			t.Errorf("chunk %d does not check", chunk)
		}
		return data
	}
	return nil
}

// check compares what the arena holds of [0, length) of a shard with its pattern,
// and returns how many chunks were there.
func (r arenaReader) check(t testing.TB, shard layout.Shard, incarnation, length uint64) (chunks int) {
	t.Helper()
	hash := shard.Hash(incarnation)
	e := r.entry(t, shard)
	if !e.Valid(hash) || e.Length != length {
		t.Fatalf("published length %d, want %d (valid: %v)", e.Length, length, e.Valid(hash))
	}
	for c := uint64(0); c*layout.ChunkSize < length; c++ {
		start := c * layout.ChunkSize
		got := r.chunk(t, hash, c)
		if got == nil {
			continue
		}
		chunks++
		if want := pattern(start, int(min(layout.ChunkSize, length-start))); !bytes.Equal(got, want) {
			t.Fatalf("chunk %d is wrong", c)
		}
	}
	if tail, valid := layout.Tail(length); length > 0 {
		if got := r.chunk(t, hash, tail); len(got) < valid || layout.ExtendCRC(layout.SeedCRC(hash, tail), got[:valid]) != e.TailCRC {
			t.Fatalf("tail chunk %d of %d bytes does not match the entry", tail, len(got))
		}
	}
	return chunks
}

var shardA = layout.Shard{Stream: "logs", Number: 3}

// appendPattern appends the pattern in random batches up to length.
func appendPattern(t testing.TB, store *durable.Remote, shard layout.Shard, from, length uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(from, length))
	for from < length {
		n := int(min(length-from, 1+uint64(rng.IntN(1<<uint(3+rng.IntN(15))))))
		pos, end, err := store.Append(t.Context(), shard.String(), from, pattern(from, n))
		if err != nil || pos != from || end != from+uint64(n) {
			t.Fatalf("append of %d at %d: [%d, %d), %v", n, from, pos, end, err)
		}
		from = end
	}
}

func TestRealAppendIsMirrored(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	store := durable.NewRemote(c)
	const length = 1<<20 + 1234
	appendPattern(t, store, shardA, 0, length)
	info, err := store.Stat(t.Context(), shardA.String())
	if err != nil || info.Length != length {
		t.Fatalf("stat: %+v, %v", info, err)
	}
	read := overTCP(t, c)
	if n, want := read.check(t, shardA, info.Incarnation, length), length/layout.ChunkSize+1; n != want {
		t.Errorf("%d of %d chunks in the arena", n, want)
	}
	got := make([]byte, length)
	if n, err := store.ReadAt(t.Context(), shardA.String(), 0, got); n != length || err != nil || !bytes.Equal(got, pattern(0, length)) {
		t.Errorf("durable read through the node: %d bytes, %v", n, err)
	}
	list, err := store.List(t.Context(), "", 0)
	if err != nil || len(list) != 1 || list[0].Shard != shardA.String() || list[0].Info != info {
		t.Errorf("list: %+v, %v", list, err)
	}
	st := s.Stats()
	if st.Appenders != 1 || st.AppendBytes != length || st.ArenaReads == 0 || st.DurableReadBytes != length || len(st.Refusals) != 0 {
		t.Errorf("stats: %+v", st)
	}
}

func TestRealHello(t *testing.T) {
	s := serve(t, nil)
	h := dial(t, s).Hello()
	header, err := layout.ParseHeader(s.main().arena.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if h.Epoch != header.Epoch || h.ArenaSize != header.Geometry.Size() || h.Features != wire.FeatureDurable|wire.FeatureAwait|wire.FeatureExtents || h.BootID == "" {
		t.Errorf("hello: %+v, arena %+v", h, header)
	}
}

func TestRealTypedErrors(t *testing.T) {
	s := serve(t, func(c *Config) { c.Durable.SegmentBytes = 1000 })
	c := dial(t, s)
	store := durable.NewRemote(c)
	name := shardA.String()
	for pos := uint64(0); pos < 5000; pos += 500 {
		appendPattern(t, store, shardA, pos, pos+500)
	}
	segments, err := filepath.Glob(filepath.Join(s.cfg.Dir, "logs", "0003", "*.log"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	if err := os.Remove(segments[0]); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	read := func(shard string, pos uint64) func() error {
		return func() error { _, err := store.ReadAt(t.Context(), shard, pos, buf); return err }
	}
	appendTo := func(shard string, off uint64, n int) func() error {
		return func() error { _, _, err := store.Append(t.Context(), shard, off, make([]byte, n)); return err }
	}
	call := func(op wire.Op, payload []byte) func() error {
		return func() error { _, err := c.Call(t.Context(), op, payload, nil); return err }
	}
	arena := func(reads ...wire.ArenaRead) []byte {
		b, err := wire.AppendReadArena(nil, reads)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	size := uint64(len(s.main().arena.Bytes()))
	for _, tc := range []struct {
		name string
		do   func() error
		want error
		arg0 uint64
	}{
		{"stat of an unknown shard", func() error { _, err := store.Stat(t.Context(), "nope/0000"); return err }, wire.ErrUnknownShard, 0},
		{"read of an unknown shard", read("nope/0000", 0), wire.ErrUnknownShard, 0},
		{"read beyond", read(name, 5001), wire.ErrBeyond, 5000},
		{"append at a wrong offset", appendTo(name, 17, 3), wire.ErrOffset, 5000},
		{"bad name in append", appendTo("../etc/0000", wire.NoOffset, 3), wire.ErrBadRequest, 0},
		{"bad name in read", read("a//0", 0), wire.ErrBadRequest, 0},
		{"over-long stream", appendTo(strings.Repeat("x", 129)+"/0000", wire.NoOffset, 3), wire.ErrBadRequest, 0},
		{"arena read past the end", call(wire.OpReadArena, arena(wire.ArenaRead{Off: size - 8, N: 16})), wire.ErrBadRequest, 0},
		{"arena read far outside", call(wire.OpReadArena, arena(wire.ArenaRead{Off: 1 << 62, N: 1})), wire.ErrBadRequest, 0},
		{"empty arena read", call(wire.OpReadArena, []byte{0, 0}), wire.ErrBadRequest, 0},
		{"put that does not check", call(wire.OpPut, make([]byte, 40)), wire.ErrBadRequest, 0},
		{"put without prefix", call(wire.OpPut, append(make([]byte, 28), 5, 0, 0, 0, 1)), wire.ErrNeedPrefix, 0},
		{"publish of nothing", call(wire.OpPublish, append(make([]byte, 30), 1, 'x')), wire.ErrBadRequest, 0},
		{"unknown operation", call(77, []byte("x")), wire.ErrBadRequest, 0},
		{"a second hello", call(wire.OpHello, []byte("RMAT\x01\x00\x00")), wire.ErrBadRequest, 0},
		{"RDMA", call(wire.OpRDMAConnect, []byte("offer")), wire.ErrNoRDMA, 0},
		{"node stat with a payload", call(wire.OpList, []byte{0, 0, 0}), wire.ErrBadRequest, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.do()
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if e := wire.ErrorOf(err); tc.arg0 != 0 && e.Arg0 != tc.arg0 {
				t.Errorf("number %d, want %d", e.Arg0, tc.arg0)
			}
		})
	}
	// Below retention, with the first kept position.
	err = read(name, 0)()
	if e := wire.ErrorOf(err); !errors.Is(err, wire.ErrOutOfRetention) || e.Arg0 == 0 || e.Arg1 != 5000 {
		t.Errorf("below retention: %v", err)
	}
	if err := call(wire.OpPing, nil)(); err != nil {
		t.Errorf("ping after all refusals: %v", err)
	}
}

func TestRealCacheAlone(t *testing.T) {
	s := serve(t, func(c *Config) { c.Dir = "" })
	c := dial(t, s)
	if f := c.Hello().Features; f != wire.FeatureAwait|wire.FeatureExtents {
		t.Errorf("features %b", f)
	}
	store := durable.NewRemote(c)
	_, _, aerr := store.Append(t.Context(), "a/0000", 0, []byte("x"))
	_, serr := store.Stat(t.Context(), "a/0000")
	_, rerr := store.ReadAt(t.Context(), "a/0000", 0, make([]byte, 1))
	_, lerr := store.List(t.Context(), "", 1)
	for _, err := range []error{aerr, serr, rerr, lerr} {
		if !errors.Is(err, wire.ErrNoStore) {
			t.Errorf("durable operation on a node without a store: %v", err)
		}
	}
}

func TestRealLockedShard(t *testing.T) {
	s := serve(t, nil)
	dir, err := durable.Open(s.cfg.Dir, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	log, err := dir.Log("a/0000")
	if err != nil {
		t.Fatal(err)
	}
	store := durable.NewRemote(dial(t, s))
	if _, _, err := store.Append(t.Context(), "a/0000", wire.NoOffset, []byte("x")); !errors.Is(err, wire.ErrLocked) {
		t.Errorf("append to a shard that another writer holds: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Append(t.Context(), "a/0000", wire.NoOffset, []byte("x")); err != nil {
		t.Errorf("append after the other writer has gone: %v", err)
	}
}

func TestRealRestart(t *testing.T) {
	cfg := testConfig(t)
	const length = 100_000
	var epoch uint64
	var info durable.Info
	run := func(f func(c *wire.Client, store *durable.Remote)) {
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listen = s.Addr().String() // the same address the next time
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx) }()
		c := dial(t, s)
		f(c, durable.NewRemote(c))
		stop()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		<-c.Lost()
	}
	run(func(c *wire.Client, store *durable.Remote) {
		appendPattern(t, store, shardA, 0, length)
		epoch = c.Hello().Epoch
		info, _ = store.Stat(t.Context(), shardA.String())
	})
	run(func(c *wire.Client, store *durable.Remote) {
		if c.Hello().Epoch == epoch {
			t.Error("a restarted node has its old epoch")
		}
		if now, err := store.Stat(t.Context(), shardA.String()); err != nil || now != info {
			t.Errorf("stat after a restart: %+v, %v; want %+v", now, err, info)
		}
		appendPattern(t, store, shardA, length, length+10)
		// The tail chunk is there from its start, the rest is a hole.
		if n := overTCP(t, c).check(t, shardA, info.Incarnation, length+10); n != 1 {
			t.Errorf("%d chunks in the arena after a restart, want the tail", n)
		}
		got := make([]byte, length+10)
		if _, err := store.ReadAt(t.Context(), shardA.String(), 0, got); err != nil || !bytes.Equal(got, pattern(0, len(got))) {
			t.Errorf("durable bytes after a restart: %v", err)
		}
	})
}
