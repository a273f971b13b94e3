package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Whatever a broken node does, calls end with ErrLost and the cause, at once and not by their deadlines.
func TestRealBrokenNode(t *testing.T) {
	reply := func(h Header, n int) []byte { return append(AppendReply(nil, h, n), make([]byte, n)...) }
	for _, c := range []struct {
		name   string
		script func(p *peer, h Header)
		want   error
	}{
		{"garbage", func(p *peer, _ Header) { p.send(bytes.Repeat([]byte("x"), 500)) }, ErrHeaderCRC},
		{"closes", func(*peer, Header) {}, io.EOF},
		{"closes in a header", func(p *peer, h Header) { p.send(reply(h, 100)[:10]) }, ErrShortFrame},
		{"closes in a payload", func(p *peer, h Header) { p.send(reply(h, 100)[:60]) }, ErrShortFrame},
		{"closes in a refusal", func(p *peer, h Header) { p.send(AppendError(nil, h, ErrBusy)[:30]) }, ErrShortFrame},
		{"reply too short", func(p *peer, h Header) { p.send(reply(h, 99)) }, ErrProtocol},
		{"reply too long", func(p *peer, h Header) { p.send(reply(h, 101)) }, ErrProtocol},
		{"reply empty", func(p *peer, h Header) { p.send(reply(h, 0)) }, ErrProtocol},
		{"reply of a length over every limit", func(p *peer, h Header) {
			p.send(AppendHeader(nil, Header{Op: h.Op, ID: h.ID, Length: MaxPayload + 1}))
		}, ErrFrameTooLong},
		{"another operation", func(p *peer, h Header) { h.Op = OpPing; p.send(reply(h, 100)) }, ErrProtocol},
		{"id never issued", func(p *peer, h Header) { h.ID += 1 << slotBits; p.send(reply(h, 100)) }, ErrProtocol},
		{"slot never used", func(p *peer, h Header) { h.ID |= 77; p.send(reply(h, 100)) }, ErrProtocol},
		{"id 0", func(p *peer, h Header) { h.ID = 0; p.send(reply(h, 100)) }, ErrProtocol},
		{"answers twice", func(p *peer, h Header) {
			next, _ := p.next()
			p.send(append(reply(h, 100), reply(h, 100)...))
			_ = next
		}, ErrProtocol},
		{"refusal too long", func(p *peer, h Header) {
			p.send(append(AppendHeader(nil, Header{Op: h.Op, ID: h.ID, Status: StatusBusy, Length: 529}), make([]byte, 529)...))
		}, ErrFrameTooLong},
		{"refusal too short", func(p *peer, h Header) {
			p.send(append(AppendHeader(nil, Header{Op: h.Op, ID: h.ID, Status: StatusBusy, Length: 15}), make([]byte, 15)...))
		}, ErrMalformed},
		{"resets", func(p *peer, _ Header) { _ = p.Conn.(*net.TCPConn).SetLinger(0) }, nil},
	} {
		cl := dial(t, node(t, "tcp", func(p *peer) {
			h, _ := p.next()
			if c.script(p, h); c.name != "resets" {
				p.leave()
			}
		}), Options{})
		begun := time.Now()
		first := readAt(t, cl, soon(), 0, make([]byte, 100))
		second, err := cl.Start(soon(), OpPing, nil, nil, nil)
		if err == nil {
			_, err = second.Wait()
		}
		if !errors.Is(err, ErrLost) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: the other call: %v", c.name, err)
		}
		if _, err := first.Wait(); c.name != "answers twice" && (!errors.Is(err, ErrLost) || c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
		await(t, cl.Lost(), "loss")
		if err := cl.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("%s: Err is %v", c.name, err)
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("%s took %s", c.name, took)
		}
	}
}

// leave ends the peer's side and reads what the client still sends: closing with
// that unread would be a reset, which may overtake what was sent before.
func (p *peer) leave() {
	_ = p.Conn.(*net.TCPConn).CloseWrite()
	_ = p.Conn.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.Copy(io.Discard, p.Conn)
}

func TestRealHelloRefused(t *testing.T) {
	raw := func(answer func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		t.Cleanup(func() {
			_ = l.Close()
			<-done
		})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				answer(conn)
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
		}()
		return l.Addr().String()
	}
	write := func(b []byte) func(net.Conn) { return func(c net.Conn) { _, _ = c.Write(b) } }
	hello := Header{Op: OpHello}
	other := testHello
	other.Version = 9
	for _, c := range []struct {
		name   string
		answer func(net.Conn)
		want   error
		text   string
	}{
		{"silent", func(net.Conn) {}, os.ErrDeadlineExceeded, "hello with node"},
		{"half a header", write(make([]byte, 5)), os.ErrDeadlineExceeded, ""},
		{"half a payload", write(AppendReply(nil, hello, 60)), os.ErrDeadlineExceeded, ""},
		{"http", write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")), ErrHeaderCRC, ""},
		{"closes", func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }, io.EOF, ""},
		{"other version", write(AppendError(nil, hello, &Error{Status: StatusVersion, Arg0: 9})), ErrVersion, "node speaks 9, this program 2"},
		{"other version, politely", write(frame(hello, must(other.AppendTo(nil)))), ErrVersion, "node speaks 9"},
		{"busy", write(AppendError(nil, hello, ErrBusy)), ErrBusy, ""},
		{"another reply", write(AppendReply(nil, Header{Op: OpPing}, 0)), ErrProtocol, ""},
		{"another id", write(AppendReply(nil, Header{Op: OpHello, ID: 1}, 0)), ErrProtocol, ""},
		{"long", write(AppendReply(nil, hello, maxErrReply+1)), ErrFrameTooLong, ""},
		{"malformed", write(frame(hello, []byte{1, 0, 0})), ErrMalformed, ""},
		{"malformed refusal", write(frame(Header{Op: OpHello, Status: StatusBusy}, []byte("x"))), ErrMalformed, ""},
	} {
		begun := time.Now()
		_, err := Dial(context.Background(), raw(c.answer), Options{Timeout: 100 * time.Millisecond})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %s", c.name, took)
		}
	}
	accepted := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-accepted
		cancel()
	}()
	if _, err := Dial(ctx, raw(func(net.Conn) { close(accepted) }), Options{Timeout: patience}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Dial(context.Background(), "127.0.0.1:1", Options{Name: strings.Repeat("x", 65)}); !errors.Is(err, ErrBadRequest) {
		t.Errorf("long name: %v", err)
	}
	if _, err := Dial(context.Background(), "unix:/nonexistent/socket", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	if _, err := Dial(context.Background(), "127.0.0.1:1", Options{MaxOutstanding: 1<<16 + 1}); !errors.Is(err, ErrBadRequest) {
		t.Errorf("too many outstanding: %v", err)
	}
}

// The server side refuses a client of another version in words it can read.
func TestRealVersionRefusedByNode(t *testing.T) {
	conn, err := net.Dial("tcp", node(t, "tcp", serve))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(soon())
	// A later version's Hello may go on in ways that this one does not know.
	p := append([]byte(Magic), Version+1, 0, 0xff, 1, 2, 3)
	if _, err := conn.Write(frame(Header{Op: OpHello}, p)); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil || len(b) < HeaderLen {
		t.Fatalf("%d B, %v", len(b), err)
	}
	h, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseError(h.Status, b[HeaderLen:])
	if err != nil || !errors.Is(e, ErrVersion) || e.Arg0 != Version {
		t.Errorf("%v, %v", e, err)
	}
}
