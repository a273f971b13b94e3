package durable

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// node answers durable requests out of a Dir, one at a time, as a node would.
type node struct {
	d    *Dir
	logs map[string]*Log
	mute chan struct{} // appends are not answered until it is closed; nil: they are
}

// dialNode serves n on a Unix socket for the length of the test.
func dialNode(t *testing.T, n *node) *wire.Client {
	t.Helper()
	n.logs = map[string]*Log{}
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			n.serve(c)
			c.Close()
		}
		served <- err
	}()
	c, err := wire.Dial(ctxOf(t), "unix:"+path, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		ln.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (n *node) serve(c net.Conn) {
	fr := wire.NewFrameReader(bufio.NewReader(c))
	for {
		h, p, err := fr.Next()
		if err != nil {
			return
		}
		var r wire.Replies
		if reply, err := n.answer(h, p); err != nil {
			r.Error(h, err)
		} else {
			r.Reply(h, reply)
		}
		if r.Flush(c) != nil {
			return
		}
	}
}

func (n *node) answer(h wire.Header, p []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info := func(i Info) wire.ShardInfo {
		w := wire.ShardInfo{Incarnation: i.Incarnation, First: i.First, Length: i.Length}
		if i.Sealed {
			w.Flags = wire.ShardSealed
		}
		return w
	}
	switch h.Op {
	case wire.OpHello:
		return wire.HelloReply{Version: wire.Version}.AppendTo(nil)
	case wire.OpStat:
		shard, err := wire.ParseStat(p)
		if err != nil {
			return nil, err
		}
		i, err := n.d.Stat(ctx, string(shard))
		return info(i).AppendTo(nil), err
	case wire.OpReadDurable:
		r, err := wire.ParseReadDurable(p)
		if err != nil {
			return nil, err
		}
		b := make([]byte, min(r.Max, 1000)) // fewer than asked for
		m, err := n.d.ReadAt(ctx, string(r.Shard), r.Pos, b)
		return b[:m], err
	case wire.OpList:
		l, err := wire.ParseList(p)
		if err != nil {
			return nil, err
		}
		entries, err := n.d.List(ctx, string(l.After), int(l.Limit))
		out := make([]wire.ListEntry, len(entries))
		for i, e := range entries {
			out[i] = wire.ListEntry{Shard: []byte(e.Shard), ShardInfo: info(e.Info)}
		}
		b, werr := wire.AppendListReply(nil, out)
		return b, errors.Join(err, werr)
	case wire.OpAppend:
		return n.append(ctx, p)
	}
	return nil, fmt.Errorf("%w: %v", wire.ErrBadRequest, h.Op)
}

func (n *node) append(ctx context.Context, p []byte) ([]byte, error) {
	a, err := wire.ParseAppend(p)
	if err != nil {
		return nil, err
	}
	l := n.logs[string(a.Shard)]
	if l == nil {
		if l, err = n.d.Log(string(a.Shard)); err != nil {
			return nil, err
		}
		n.logs[string(a.Shard)] = l
	}
	end, err := l.Append(ctx, a.Offset, a.Data)
	if n.mute != nil {
		<-n.mute
	}
	return wire.Appended{Pos: end - uint64(len(a.Data)), End: end}.AppendTo(nil), err
}

// A store through a node gives the same answers and the same errors.
func TestRealRemote(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{SegmentBytes: 5000})
	r := NewRemote(dialNode(t, &node{d: d}))
	ctx := ctxOf(t)
	if _, err := r.Stat(ctx, "s/0000"); !errors.Is(err, wire.ErrUnknownShard) {
		t.Fatal(err)
	}
	var pos uint64
	for _, n := range []int{1, 4000, 700, 100_000} {
		at, end, err := r.Append(ctx, "s/0000", pos, bytesAt(pos, n))
		if err != nil || at != pos || end != pos+uint64(n) {
			t.Fatalf("append: [%d, %d), %v", at, end, err)
		}
		pos = end
	}
	if at, end, err := r.Append(ctx, "s/0000", NoOffset, bytesAt(pos, 5)); err != nil || at != pos || end != pos+5 {
		t.Fatalf("append at the end: [%d, %d), %v", at, end, err)
	}
	pos += 5
	local, err := d.Stat(ctx, "s/0000")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Stat(ctx, "s/0000"); err != nil || got != local || got.Length != pos {
		t.Fatalf("%+v, %v; want %+v", got, err, local)
	}
	p := make([]byte, pos+10)
	n, err := r.ReadAt(ctx, "s/0000", 3, p)
	if err != nil || n != int(pos-3) {
		t.Fatalf("read %d, %v", n, err)
	}
	if err := checkBytes(p[:n], 3); err != nil {
		t.Fatal(err)
	}
	if n, err := r.ReadAt(ctx, "s/0000", pos, p); n != 0 || err != nil {
		t.Fatalf("at the end: %d, %v", n, err)
	}
	openLog(t, d, "t/0001").Seal()
	want, _ := d.List(ctx, "", 0)
	if got, err := r.List(ctx, "", 0); err != nil || !slices.Equal(got, want) || len(got) != 2 || !got[1].Sealed {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}

	var we *wire.Error
	_, err = r.ReadAt(ctx, "s/0000", pos+1, p)
	if !errors.Is(err, wire.ErrBeyond) || !errors.As(err, &we) || we.Arg0 != pos {
		t.Error(err)
	}
	_, _, err = r.Append(ctx, "s/0000", 1, []byte("x"))
	if !errors.Is(err, wire.ErrOffset) || !errors.As(err, &we) || we.Arg0 != pos {
		t.Error(err)
	}
	if _, _, err = r.Append(ctx, "t/0001", NoOffset, []byte("x")); !errors.Is(err, wire.ErrLocked) {
		t.Error(err)
	}
	if _, _, err = r.Append(ctx, "s/0000", pos, make([]byte, MaxAppend+1)); !errors.Is(err, wire.ErrTooLarge) {
		t.Error(err)
	}
	for _, bad := range []string{"..", "../a", ""} {
		if _, err := r.Stat(ctx, bad); !errors.Is(err, wire.ErrBadRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRealRemoteAppendWithoutAnswer(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{})
	mute := make(chan struct{})
	c := dialNode(t, &node{d: d, mute: mute})
	r := NewRemote(c)
	ctx, cancel := context.WithTimeout(ctxOf(t), 50*time.Millisecond)
	defer cancel()
	_, _, err := r.Append(ctx, "s/0000", 0, []byte("once"))
	if !errors.Is(err, ErrUnknownOutcome) {
		t.Fatal(err)
	}
	close(mute)
	_, _, err = r.Append(ctxOf(t), "s/0000", 0, []byte("once"))
	var we *wire.Error
	if !errors.Is(err, wire.ErrOffset) || errors.Is(err, ErrUnknownOutcome) || !errors.As(err, &we) || we.Arg0 != 4 {
		t.Fatalf("again: %v", err)
	}
	c.Close()
	if _, _, err = r.Append(ctxOf(t), "s/0000", 4, []byte("x")); !errors.Is(err, wire.ErrLost) || errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("on a closed connection: %v", err)
	}
}
