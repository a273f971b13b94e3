package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// sockets are the two ends of a TCP connection.
func sockets(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// TestRealTap: a tap reads as its connection does: bytes that are there, bytes that come
// later, deadlines, the end, and the close.
func TestRealTap(t *testing.T) {
	near, far := sockets(t)
	tap := newTap(near)
	b := make([]byte, 8)
	read := func(want string) {
		t.Helper()
		n, err := tap.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("%q, %v, want %q", b[:n], err, want)
		}
	}
	for range 100 { // there, and soon
		if _, err := far.Write([]byte("now")); err != nil {
			t.Fatal(err)
		}
		read("now")
		wrote := make(chan error, 1)
		go func() {
			_, err := far.Write([]byte("soon"))
			wrote <- err
		}()
		read("soon")
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
	if tap.raw == nil && taps {
		t.Error("a socket is read like any other connection")
	}
	for range 2 * tapProbe { // with reads that begin by trying again, and such that do not
		if err := near.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := tap.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("at its deadline: %v", err)
		}
	}
	if err := near.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	read("late")
	far.Close()
	if n, err := tap.Read(b); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d B, %v", n, err)
	}
	near.Close()
	if _, err := tap.Read(b); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A connection that is no socket is read as it wants to be.
func TestTapOfPipe(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go far.Write([]byte("bytes"))
	b := make([]byte, 8)
	if n, err := newTap(near).Read(b); err != nil || string(b[:n]) != "bytes" {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// How long it tries again follows how long reads have waited, and one of many tries even so.
func TestTapBudget(t *testing.T) {
	tap := new(tap)
	for range 50 {
		tap.took(5 * time.Microsecond)
	}
	if d := tap.budget(); d < 9*time.Microsecond || d > 12*time.Microsecond {
		t.Errorf("%v after waits of 5 us", d)
	}
	for range 50 {
		tap.took(time.Second)
	}
	tried := 0
	for range 4 * tapProbeMost {
		if tap.budget() > 0 {
			tried++
		}
	}
	if tried < 6 || tried > 12 { // after 32, 64 and so on
		t.Errorf("%d of %d reads try again when waits are long", tried, 4*tapProbeMost)
	}
	for range 20 { // and it comes back
		tap.took(10 * time.Microsecond)
	}
	if d := tap.budget(); d == 0 || d > tapSpin {
		t.Errorf("%v after waits have become short", d)
	}
}
