package tcp

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/fallback/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests that is not expected to end by its deadline.
const patience = 20 * time.Second

func soon() time.Time { return time.Now().Add(patience) }

const arenaSize = 16 << 20

func arenaBytes() []byte {
	b := make([]byte, arenaSize)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(b)
	return b
}

var arena = arenaBytes()

// peer is the node's end of one connection.
type peer struct {
	net.Conn
	*wire.FrameReader
}

// dial starts a node that runs script for its one connection, after the Hello, and connects to it. Everything ends with the test.
func dial(t testing.TB, script func(*peer)) *wire.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	conns := make(chan net.Conn, 1)
	running.Go(func() {
		defer close(conns)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conns <- conn
		p := &peer{conn, wire.NewFrameReader(bufio.NewReaderSize(conn, 64<<10))}
		h, payload, err := p.Next()
		if err != nil {
			t.Errorf("node: %v", err)
			return
		}
		if _, err := wire.ParseHelloRequest(payload); err != nil {
			t.Errorf("node: %v", err)
		}
		hello, err := wire.HelloReply{Version: wire.Version, ArenaSize: arenaSize}.AppendTo(nil)
		if err != nil {
			t.Errorf("node: %v", err)
		}
		if _, err := conn.Write(append(wire.AppendReply(nil, h, len(hello)), hello...)); err != nil {
			t.Errorf("node: %v", err)
		}
		script(p)
		_ = conn.Close()
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := wire.Dial(ctx, l.Addr().String(), wire.Options{Name: "test"})
	_ = l.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if conn := <-conns; conn != nil {
			_ = conn.Close()
		}
		running.Wait()
	})
	return c
}

func path(t testing.TB, c *wire.Client, o Options) *Conn {
	t.Helper()
	conn := New(c, o)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// serve answers reads straight from the arena, all that is ready in one write.
func serve(p *peer) {
	var r wire.Replies
	for {
		h, payload, err := p.Next()
		if err != nil {
			return
		}
		answer(&r, h, payload)
		if (!p.Ready() || r.Size() > 1<<20) && r.Flush(p.Conn) != nil {
			return
		}
	}
}

func answer(r *wire.Replies, h wire.Header, payload []byte) {
	if h.Op != wire.OpReadArena {
		r.Reply(h, nil)
		return
	}
	reads, err := wire.ParseReadArena(payload)
	if err != nil {
		r.Error(h, err)
		return
	}
	r.Header(h, reads.Total())
	for i := range reads.Len() {
		rd := reads.At(i)
		r.Bytes(arena[rd.Off:][:rd.N])
	}
}

func ping(t testing.TB, c *wire.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Call(ctx, wire.OpPing, nil, nil); err != nil {
		t.Fatalf("ping: %v", err)
	}
}

func await(t testing.TB, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s within %s", what, patience)
	}
}

// batch plans reads of n bytes at each offset; the slices are what Add returned.
func batch(t testing.TB, conn *Conn, size, n int, offs ...uint64) (*Batch, [][]byte) {
	t.Helper()
	b, err := conn.NewBatch(size)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for _, off := range offs {
		p := b.Add(off, n)
		if p == nil {
			t.Fatalf("no room for %d B at %d", n, off)
		}
		got = append(got, p)
	}
	return b, got
}
