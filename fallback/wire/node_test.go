package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests that is not expected to end by its deadline.
const patience = 20 * time.Second

func soon() time.Time { return time.Now().Add(patience) }

// peer is the node's end of one connection, in the hands of a test's script.
type peer struct {
	t testing.TB
	net.Conn
	*FrameReader
}

// next is the next request, its payload copied.
func (p *peer) next() (Header, []byte) {
	h, b, err := p.Next()
	if err != nil {
		p.t.Errorf("node: %v", err)
		return Header{}, nil
	}
	return h, append([]byte(nil), b...)
}

func (p *peer) send(b []byte) {
	if _, err := p.Write(b); err != nil {
		p.t.Errorf("node: %v", err)
	}
}

var testHello = HelloReply{Version: Version, Features: FeatureDurable, Epoch: 42, ArenaSize: testArena, ShmPath: "/run/x", BootID: "b"}

// node listens on a socket and runs script for each connection, after the Hello. What it started ends with the test.
func node(t testing.TB, network string, script func(*peer)) (addr string) {
	t.Helper()
	bind, prefix := "127.0.0.1:0", ""
	sealed := network == "tls"
	if sealed {
		network = "tcp"
	}
	if network == "unix" {
		bind, prefix = filepath.Join(t.TempDir(), "s"), "unix:"
	}
	l, err := net.Listen(network, bind)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if sealed {
				conn = tls.Server(conn, testTLS().server)
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				p := &peer{t: t, Conn: conn, FrameReader: NewFrameReader(bufio.NewReaderSize(conn, 64<<10))}
				h, payload, err := p.Next()
				if err != nil {
					return
				}
				if _, err := ParseHelloRequest(payload); err != nil {
					_ = WriteError(conn, h, err)
					return
				}
				p.send(frame(Header{Op: OpHello, ID: h.ID}, must(testHello.AppendTo(nil))))
				script(p)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return prefix + l.Addr().String()
}

func dial(t testing.TB, addr string, o Options) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Dial(ctx, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const testArena = 8 << 20

// arenaBytes is an arena in which every aligned 8 bytes differ.
func arenaBytes() []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, testArena)
	_, _ = r.Read(b)
	return b
}

var arena = arenaBytes()

// serve is a whole little node: vectored replies from the arena, one write for all that is ready, no allocation per request.
func serve(p *peer) {
	var r Replies
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

func answer(r *Replies, h Header, payload []byte) {
	switch h.Op {
	case OpReadArena:
		reads, err := ParseReadArena(payload)
		if err != nil {
			r.Error(h, err)
			return
		}
		for i := range reads.Len() {
			if rd := reads.At(i); rd.Off+uint64(rd.N) > testArena {
				r.Error(h, ErrBadRequest)
				return
			}
		}
		r.Header(h, reads.Total())
		for i := range reads.Len() {
			rd := reads.At(i)
			r.Bytes(arena[rd.Off:][:rd.N])
		}
	case OpPut:
		r.Reply(h, nil)
	case OpAppend, OpNodeStat, OpPing:
		r.Reply(h, payload[:min(len(payload), 16)])
	case OpStat:
		r.Error(h, &Error{Status: StatusUnknownShard, Arg0: 7, Message: string(payload)})
	default:
		r.Error(h, ErrBadRequest)
	}
}

// readAt starts a read of n arena bytes at off into dst.
func readAt(t testing.TB, c *Client, deadline time.Time, off uint64, dst []byte) *Call {
	t.Helper()
	call, err := c.Start(deadline, OpReadArena, must(AppendReadArena(nil, []ArenaRead{{off, uint32(len(dst))}})), nil, [][]byte{dst})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func ping(t testing.TB, c *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Call(ctx, OpPing, nil, nil); err != nil {
		t.Fatalf("ping: %v", err)
	}
}

// await receives from ch or fails the test.
func await[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s within %s", what, patience)
	}
	return v
}

// eventually polls cond.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// ended reports whether err is how a script's connection ends when the client closes it.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}
