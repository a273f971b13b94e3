package server

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// newsOf publishes to a shard of the node's arena, by its own hands.
func newsOf(t testing.TB, s *Server, shard layout.Shard, length uint64) {
	t.Helper()
	e := layout.Entry{Length: length, HeartbeatMS: uint64(time.Now().UnixMilli()), Incarnation: 1}
	if err := s.main().cache.Publish(layout.Publication{Shard: shard, Entry: e.Seal(shard.Hash(1))}); err != nil {
		t.Fatal(err)
	}
}

// lengthAt returns where in the arena the length of a shard is that was published.
func lengthAt(t testing.TB, s *Server, shard layout.Shard) uint64 {
	t.Helper()
	g, mem := s.main().arena.Geometry(), s.main().arena.Bytes()
	for _, set := range g.PageSetsOf(layout.StreamHash(shard.Stream), shard.Page()) {
		if way, _, ok := layout.FindIdentity(mem[g.PageSet(set):][:layout.SetSize], layout.StreamHash(shard.Stream), shard.Page()); ok {
			return g.PageSlot(set*layout.Ways+uint32(way)) + uint64(shard.EntryOffset())
		}
	}
	t.Fatalf("no page of %v", shard)
	return 0
}

// waitFor starts to wait until a shard's length is another one; the answer is the length.
func waitFor(t testing.TB, c *wire.Client, at, length uint64, wait time.Duration) *waiting {
	t.Helper()
	req := wire.AwaitArena{Wait: wait, Words: []wire.ArenaWord{{Off: at, Value: length}}, Reads: []wire.ArenaRead{{Off: at, N: 8}}}
	head, err := req.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &waiting{b: make([]byte, 8)}
	if w.call, err = c.Start(time.Now().Add(patience), wire.OpAwaitArena, head, nil, [][]byte{w.b}); err != nil {
		t.Fatal(err)
	}
	return w
}

type waiting struct {
	call *wire.Call
	b    []byte
}

func (w *waiting) end(t testing.TB) uint64 {
	t.Helper()
	if _, err := w.call.Wait(); err != nil {
		t.Fatal(err)
	}
	return layout.LoadWord(w.b, 0)
}

var waitShard = layout.Shard{Stream: "web", Number: 3}

func waitingAt(s *Server, n int) func() bool { return func() bool { return s.Stats().Waiting == n } }

// TestRealAwait: who waits for a length is answered when that moves, by nothing else
// before, and after the time with what there is.
func TestRealAwait(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	newsOf(t, s, waitShard, 100)
	at := lengthAt(t, s, waitShard)
	if got := waitFor(t, c, at, 99, wire.MaxAwait).end(t); got != 100 {
		t.Fatalf("news that had come before the request: length %d", got)
	}
	if got := waitFor(t, c, at, 100, 0).end(t); got != 100 {
		t.Fatalf("no time to wait: length %d", got)
	}
	begun := time.Now()
	if got := waitFor(t, c, at, 100, 30*time.Millisecond).end(t); got != 100 || time.Since(begun) < 30*time.Millisecond {
		t.Fatalf("nothing new: length %d after %v", got, time.Since(begun))
	}
	const n = 20
	var ws [n]*waiting
	for i := range ws {
		ws[i] = waitFor(t, c, at, 100, wire.MaxAwait)
	}
	other := waitFor(t, c, at+layout.EntrySize, 0, wire.MaxAwait)
	eventually(t, "all wait", waitingAt(s, n+1))
	newsOf(t, s, waitShard, 100) // a heartbeat
	newsOf(t, s, layout.Shard{Stream: "other", Number: 3}, 50)
	if _, err := c.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().Waiting; got != n+1 {
		t.Fatalf("%d of %d wait after what is no news to them", got, n+1)
	}
	newsOf(t, s, waitShard, 200)
	for i := range ws {
		if got := ws[i].end(t); got != 200 {
			t.Fatalf("length %d", got)
		}
	}
	eventually(t, "one waits, for another shard", waitingAt(s, 1))
	newsOf(t, s, layout.Shard{Stream: "web", Number: 4}, 7)
	if got := other.end(t); got != 7 {
		t.Fatalf("length %d of the other shard", got)
	}
}

// TestRealAwaitRace: news is never missed, however it falls with the request.
func TestRealAwaitRace(t *testing.T) {
	s := serve(t, nil)
	newsOf(t, s, waitShard, 1)
	at := lengthAt(t, s, waitShard)
	const rounds, clients = 300, 4
	var cs [clients]*wire.Client
	for i := range cs {
		cs[i] = dial(t, s)
	}
	for round := uint64(1); round <= rounds; round++ {
		published := make(chan struct{})
		go func() {
			defer close(published)
			newsOf(t, s, waitShard, round+1)
		}()
		var ws [clients]*waiting
		for i, c := range cs {
			ws[i] = waitFor(t, c, at, round, wire.MaxAwait)
		}
		for _, w := range ws {
			if got := w.end(t); got != round+1 {
				t.Fatalf("length %d after round %d", got, round)
			}
		}
		<-published
	}
	eventually(t, "nobody waits", waitingAt(s, 0))
}

// TestRealAwaitBounds: a request that is no wait for words of one length page is
// refused, and so is what exceeds a limit, until one has ended.
func TestRealAwaitBounds(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Waits, c.Limits.AllWaits, c.Limits.ClientWaits = 3, 5, 5 })
	a, b := dial(t, s), dial(t, s)
	newsOf(t, s, waitShard, 100)
	at := lengthAt(t, s, waitShard)
	g := s.main().arena.Geometry()
	for _, off := range []uint64{0, g.PageSlot(0) - 8, g.PageSlot(g.Pages()-1) + layout.PageSize, 1 << 62} {
		if _, err := waitFor(t, a, off, 0, wire.MaxAwait).call.Wait(); !errors.Is(err, wire.ErrBadRequest) {
			t.Errorf("wait for a word at %d: %v", off, err)
		}
	}
	refused := func(c *wire.Client) {
		t.Helper()
		if _, err := waitFor(t, c, at, 100, wire.MaxAwait).call.Wait(); !errors.Is(err, wire.ErrBusy) {
			t.Errorf("one wait too many: %v", err)
		}
	}
	var ws []*waiting
	for range 3 {
		ws = append(ws, waitFor(t, a, at, 100, wire.MaxAwait))
	}
	refused(a)
	for range 2 {
		ws = append(ws, waitFor(t, b, at, 100, wire.MaxAwait))
	}
	refused(b)
	newsOf(t, s, waitShard, 200)
	for _, w := range ws {
		w.end(t)
	}
	eventually(t, "nobody waits", waitingAt(s, 0))
	if got := waitFor(t, a, at, 200, time.Millisecond).end(t); got != 200 {
		t.Errorf("length %d", got)
	}
}

// TestRealAwaitEnds: waits end with their connection, with the eviction of their page,
// and with the node.
func TestRealAwaitEnds(t *testing.T) {
	cfg := testConfig(t)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context()) }()
	gone, c := dial(t, s), dial(t, s)
	newsOf(t, s, waitShard, 100)
	at := lengthAt(t, s, waitShard)
	for range 10 {
		waitFor(t, gone, at, 100, wire.MaxAwait)
	}
	last := waitFor(t, c, at, 100, wire.MaxAwait)
	eventually(t, "all wait", waitingAt(s, 11))
	gone.Close()
	eventually(t, "those of a lost connection have ended", waitingAt(s, 1))

	// More streams than there are ways push the page out.
	for i := 0; s.Stats().Waiting > 0; i++ {
		if i == 100000 {
			t.Fatal("an evicted page is no news")
		}
		newsOf(t, s, layout.Shard{Stream: fmt.Sprint("s", i)}, 1)
	}
	if got := last.end(t); got != 0 && got != 1 {
		t.Errorf("length %d of an evicted page", got)
	}

	newsOf(t, s, waitShard, 100)
	at = lengthAt(t, s, waitShard)
	last = waitFor(t, c, at, 100, wire.MaxAwait)
	eventually(t, "one waits", waitingAt(s, 1))
	begun := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > patience {
		t.Errorf("shut down in %v", took)
	}
	if got := last.end(t); got != 100 {
		t.Errorf("length %d at the node's end", got)
	}
	if err := <-served; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestRealAwaitDeafClient: one that waits and does not read its replies holds up nobody.
func TestRealAwaitDeafClient(t *testing.T) {
	s := serve(t, nil)
	newsOf(t, s, waitShard, 1)
	at := lengthAt(t, s, waitShard)
	deaf := rawDial(t, s)
	greet(t, deaf)
	req := wire.AwaitArena{Wait: wire.MaxAwait, Words: []wire.ArenaWord{{Off: at, Value: 1}}, Reads: []wire.ArenaRead{{Off: 0, N: 1 << 20}}}
	head, err := req.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	const waits = 30
	for i := range waits {
		send(t, deaf, wire.Header{Op: wire.OpAwaitArena, ID: uint64(i + 1)}, head)
	}
	eventually(t, "it waits", waitingAt(s, waits))
	c := dial(t, s)
	for length := uint64(2); length < 50; length++ {
		w := waitFor(t, c, at, length-1, wire.MaxAwait)
		newsOf(t, s, waitShard, length)
		if got := w.end(t); got != length {
			t.Fatalf("length %d", got)
		}
	}
	if s.Stats().Waiting == 0 {
		t.Error("the deaf client is not deaf: its replies were taken")
	}
	deaf.Close()
	eventually(t, "nobody waits", waitingAt(s, 0))
}

// TestRealAwaitOfAnExtent: bytes of an extent come along from where the node has it by then,
// zeros of one that it lacks, and nothing from beyond one.
func TestRealAwaitOfAnExtent(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	newsOf(t, s, waitShard, 100)
	at := lengthAt(t, s, waitShard)
	hash := waitShard.Hash(1)
	await := func(e wire.ExtentRead) ([]byte, error) {
		req := wire.AwaitArena{Words: []wire.ArenaWord{{Off: at, Value: 99}}, Reads: []wire.ArenaRead{{Off: at, N: 8}}, Along: e}
		head, err := req.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		length, bytes := make([]byte, 8), make([]byte, e.N)
		call, err := c.Start(time.Now().Add(patience), wire.OpAwaitArena, head, nil, [][]byte{length, bytes})
		if err != nil {
			t.Fatal(err)
		}
		_, err = call.Wait()
		return bytes, err
	}
	read := wire.ExtentRead{ShardHash: hash, Extent: 0, From: 4, N: 5}
	if got, err := await(read); err != nil || string(got) != "\x00\x00\x00\x00\x00" {
		t.Errorf("an extent that is not there: %q, %v", got, err)
	}
	data := []byte("0123456789")
	put := layout.Put{Shard: hash, Data: data, CRC: layout.ExtendCRC(layout.SeedCRC(hash, 0), data)}
	if err := s.main().cache.Put(put); err != nil {
		t.Fatal(err)
	}
	if got, err := await(read); err != nil || string(got) != "45678" {
		t.Errorf("bytes 4 to 9 of the extent: %q, %v", got, err)
	}
	for _, from := range []uint32{layout.ExtentSize, layout.ExtentSize - 4} {
		read.From = from
		if _, err := await(read); !errors.Is(err, wire.ErrBadRequest) {
			t.Errorf("5 bytes at %d of an extent: %v", from, err)
		}
	}
}
