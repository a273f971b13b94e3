package producer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

const patience = 20 * time.Second

var shard = layout.Shard{Stream: "logs", Number: 130}

// node is a cache alone, that can be stopped and started again at its address.
type node struct {
	cfg  server.Config
	stop func()
}

func (n *node) start(t *testing.T) {
	t.Helper()
	var s *server.Server
	eventually(t, "the address is free", func() (err error) { s, err = server.New(n.cfg); return err })
	if n.cfg.Listen == "127.0.0.1:0" { // from now on at this address
		n.cfg.Listen = s.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, server.ErrClosed) {
			t.Error("serve:", err)
		}
	}
}

func eventually(t testing.TB, what string, do func() error) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s: %v", what, err)
		}
	}
}

// look reads the node's arena over a connection of its own, by layout alone: the
// shard's entry, and how many chunks of [0, length) are there and right.
func (n *node) look(t testing.TB, incarnation uint64) (e layout.Entry, chunks int, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := wire.Dial(ctx, n.cfg.Listen, wire.Options{})
	if err != nil {
		return e, 0, err
	}
	defer c.Close()
	read := func(off uint64, size int) []byte {
		req, rerr := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: off, N: uint32(size)}})
		b, cerr := c.Call(ctx, wire.OpReadArena, req, nil)
		if err = errors.Join(err, rerr, cerr); err != nil {
			return make([]byte, size)
		}
		return b
	}
	h, err := layout.ParseHeader(read(0, layout.HeaderSize))
	if err != nil {
		return e, 0, err
	}
	g, stream, hash := h.Geometry, layout.StreamHash(shard.Stream), shard.Hash(incarnation)
	for _, set := range g.PageSetsOf(stream, shard.Page()) {
		if way, _, ok := layout.FindIdentity(read(g.PageSet(set), layout.SetSize), stream, shard.Page()); ok {
			e = layout.ParseEntry(read(g.PageSlot(set*layout.Ways+uint32(way)), layout.PageSize), shard.EntryOffset())
		}
	}
	if !e.Valid(hash) {
		return e, 0, errors.Join(err, errors.New("no entry that checks"))
	}
	for c := uint64(0); c*layout.ChunkSize < e.Length; c++ {
		for _, set := range g.ExtentSetsOf(hash, layout.Extent(c*layout.ChunkSize)) {
			way, generation, ok := layout.FindIdentity(read(g.ExtentSet(set), layout.SetSize), hash, c/layout.ChunksPerExtent)
			if !ok {
				continue
			}
			index, i := set*layout.Ways+uint32(way), c%layout.ChunksPerExtent
			d := layout.ParseDescriptor(read(g.Descriptors(index), layout.DescriptorsSize), int(i))
			if !d.Of(generation) {
				continue
			}
			data := read(g.ExtentSlot(index)+i*layout.ChunkSize, d.Valid())
			if layout.ExtendCRC(layout.SeedCRC(hash, c), data) != d.CRC() {
				t.Errorf("chunk %d does not check", c)
			}
			for k, b := range data {
				if b != content(c*layout.ChunkSize+uint64(k)) {
					t.Fatalf("byte %d is wrong", c*layout.ChunkSize+uint64(k))
				}
			}
			chunks++
		}
	}
	return e, chunks, err
}

func content(pos uint64) byte { return byte(pos * 0x9e3779b97f4a7c15 >> 56) }

func record(pos uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = content(pos + uint64(i))
	}
	return b
}

// A producer with the durable store at hand feeds a node elsewhere; the node goes
// away, appends go on, and it comes back empty and catches up by jumping.
func TestRealOneNodeElsewhere(t *testing.T) {
	n := &node{cfg: server.Config{
		Listen: "127.0.0.1:0", Arena: chunkstore.Config{Bytes: 4 << 20}, Socket: server.SocketNone, RDMAMode: server.RDMAOff,
	}}
	n.start(t)
	dir, err := durable.Open(t.TempDir(), durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	log, err := dir.Log(shard.String())
	if err != nil {
		t.Fatal(err)
	}
	incarnation := log.Info().Incarnation
	cache, err := producer.NewReplicaCache(producer.ReplicaConfig{Source: cluster.Single(n.cfg.Listen), Timeout: 2 * time.Second, Owner: "producer"})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	a, err := producer.Open(t.Context(), producer.Config{
		Shard: shard, Log: log, Cache: cache, Heartbeat: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	length := uint64(0)
	add := func(size int) {
		t.Helper()
		ack, err := a.Append(t.Context(), record(length, size))
		if err != nil {
			t.Fatal(err)
		}
		pos, err := ack.Wait(t.Context())
		if err != nil || pos != length {
			t.Fatalf("append at %d: %d, %v", length, pos, err)
		}
		length += uint64(size)
	}
	arrives := func() (chunks int) {
		t.Helper()
		eventually(t, "the cache has the length", func() error {
			e, k, err := n.look(t, incarnation)
			if err == nil && e.Length != length {
				err = errors.New("another length")
			}
			chunks = k
			return err
		})
		return chunks
	}
	for _, size := range []int{1, 100, 5000, 1 << 20, 3, 70_000} {
		add(size)
	}
	if got, want := arrives(), int(length/layout.ChunkSize)+1; got != want {
		t.Errorf("%d of %d chunks in the cache", got, want)
	}
	n.stop()
	for range 50 {
		add(3000)
	}
	n.start(t)
	if got := arrives(); got != 1 {
		t.Errorf("%d chunks in a cache that came back empty, want the tail", got)
	}
	add(10_000)
	if got := arrives(); got < 2 {
		t.Errorf("%d chunks in the cache that came back", got)
	}
	if err := a.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e, _, err := n.look(t, incarnation); err != nil || e.Flags&layout.FlagSealed == 0 {
		t.Errorf("entry of a sealed shard: %+v, %v", e, err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.stop()
}
