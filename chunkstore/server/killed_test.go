package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/reader"
)

// nodeProcess is a node in a process of its own.
type nodeProcess struct {
	dir  string
	addr string // with a port, once it has run
	cmd  *exec.Cmd
}

func (n *nodeProcess) start(t *testing.T) {
	t.Helper()
	n.cmd = exec.CommandContext(t.Context(), os.Args[0])
	n.cmd.Env = append(os.Environ(), asNode+"="+n.dir, asNodeAddr+"="+n.addr)
	n.cmd.Stderr = os.Stderr
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("a node says %q: %v", line, err)
	}
	n.addr = strings.TrimSpace(line)
}

func (n *nodeProcess) kill(t *testing.T) {
	t.Helper()
	if err := n.cmd.Process.Kill(); err != nil {
		t.Error("kill:", err)
	}
	_ = n.cmd.Wait() // says that it was killed
}

// recordBytes is the size of a record: producer, number, and a check of both.
const recordBytes = 16

func recordOf(b []byte, producer, n uint32) {
	binary.LittleEndian.PutUint32(b, producer)
	binary.LittleEndian.PutUint32(b[4:], n)
	binary.LittleEndian.PutUint64(b[8:], checkOf(producer, n))
}

func checkOf(producer, n uint32) uint64 {
	x := (uint64(producer)<<32 | uint64(n)) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// killedProducer appends its records in order, some of them ahead, and begins
// again behind the last acknowledged one whenever the node is gone.
type killedProducer struct {
	id       uint32
	at       []uint64 // where each acknowledged record lies
	conns    int
	progress *atomic.Int64
}

// pause waits before something is looked at again; false: ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const ahead = 32 // records of a producer that wait for an answer

func (p *killedProducer) run(ctx context.Context, addr string, records int) error {
	for len(p.at) < records {
		c, err := wire.Dial(ctx, addr, wire.Options{})
		if err != nil {
			if pause(ctx, 5*time.Millisecond) {
				continue
			}
			return fmt.Errorf("producer %d at record %d: %w", p.id, len(p.at), err)
		}
		p.conns++
		err = p.on(ctx, c, records)
		c.Close()
		if err != nil && !errors.Is(err, wire.ErrLost) && !errors.Is(err, wire.ErrClosing) {
			return fmt.Errorf("producer %d at record %d: %w", p.id, len(p.at), err)
		}
	}
	return nil
}

// on appends over one connection.
func (p *killedProducer) on(ctx context.Context, c *wire.Client, records int) error {
	req := wire.Append{Shard: []byte(shardA.String()), Offset: wire.NoOffset}
	var buf [ahead * recordBytes]byte
	var calls [ahead]*wire.Call
	for len(p.at) < records {
		n := min(ahead, records-len(p.at))
		var err error
		queued := 0
		for i := range n {
			rec := buf[i*recordBytes:][:recordBytes]
			recordOf(rec, p.id, uint32(len(p.at)+i))
			req.Data = rec
			var head []byte
			if head, err = req.AppendTo(nil); err != nil {
				break
			}
			if calls[i], err = c.Queue(time.Now().Add(patience), wire.OpAppend, head, rec, nil); err != nil {
				break
			}
			queued++
		}
		for _, call := range calls[:queued] {
			b, werr := call.Wait()
			if err = errors.Join(err, werr); err != nil {
				continue // what is behind a record without an answer comes again, too
			}
			a, perr := wire.ParseAppended(b)
			if perr != nil || a.End-a.Pos != recordBytes {
				return fmt.Errorf("answer [%d, %d): %w", a.Pos, a.End, perr)
			}
			p.at = append(p.at, a.Pos)
			p.progress.Add(1)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A million records of 64 producers through a node that is killed and started
// again 20 times: what was acknowledged is there, where it was said to be, in the
// order of each producer; and a consumer that follows meanwhile gets the very
// bytes, without a gap.
func TestRealKilledAgainAndAgain(t *testing.T) {
	const producers, kills = 64, 20
	const each = killedRecords / producers
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	n := &nodeProcess{dir: t.TempDir(), addr: "127.0.0.1:0"}
	n.start(t)
	defer func() { n.kill(t) }()
	follower := follow(t, ctx, n.addr)

	var progress atomic.Int64
	var wg sync.WaitGroup
	all := make([]*killedProducer, producers)
	for i := range all {
		all[i] = &killedProducer{id: uint32(i), progress: &progress}
		wg.Go(func() {
			if err := all[i].run(ctx, n.addr, each); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	for k := range kills {
		target := int64(producers * each * (k + 1) / (kills + 2))
		for progress.Load() < target {
			if !pause(ctx, time.Millisecond) {
				t.Fatalf("%d of %d records after %d kills", progress.Load(), producers*each, k)
			}
		}
		n.kill(t)
		n.start(t)
	}
	wg.Wait()
	took := time.Since(began)
	content, repeated := checkKilled(t, n.dir, all, each)
	follower.check(t, ctx, content)
	conns := 0
	for _, p := range all {
		conns += p.conns
	}
	t.Logf("report: %d records of %d producers through %d kills in %.1f s: all there, %d more than once, over %d connections",
		producers*each, producers, kills, took.Seconds(), repeated, conns)
}

// checkKilled reads everything back.
func checkKilled(t *testing.T, dir string, all []*killedProducer, each int) (content []byte, repeated int) {
	t.Helper()
	d, err := durable.Open(dir, durable.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	info, err := d.Stat(t.Context(), shardA.String())
	if err != nil || info.Length%recordBytes != 0 {
		t.Fatalf("%+v, %v: want a whole number of records", info, err)
	}
	content = make([]byte, info.Length)
	if n, err := d.ReadAt(t.Context(), shardA.String(), 0, content); err != nil || n != len(content) {
		t.Fatal(n, err)
	}
	next := make([]uint32, len(all))
	for pos := 0; pos < len(content); pos += recordBytes {
		id, n := binary.LittleEndian.Uint32(content[pos:]), binary.LittleEndian.Uint32(content[pos+4:])
		if int(id) >= len(all) || binary.LittleEndian.Uint64(content[pos+8:]) != checkOf(id, n) {
			t.Fatalf("no record at %d", pos)
		}
		switch {
		case n == next[id]:
			next[id]++
		case n > next[id]:
			t.Fatalf("producer %d: record %d at %d comes before %d", id, n, pos, next[id])
		default:
			repeated++
		}
	}
	var want [recordBytes]byte
	for _, p := range all {
		if len(p.at) != each || next[p.id] != uint32(each) {
			t.Errorf("producer %d: %d acknowledged, %d there, want %d", p.id, len(p.at), next[p.id], each)
		}
		for n, pos := range p.at {
			recordOf(want[:], p.id, uint32(n))
			if pos+recordBytes > uint64(len(content)) || !bytes.Equal(content[pos:pos+recordBytes], want[:]) {
				t.Fatalf("producer %d: record %d is not at %d, where it was acknowledged", p.id, n, pos)
			}
		}
	}
	return content, repeated
}

// follower is a consumer from the beginning.
type follower struct {
	got  bytes.Buffer
	want chan int
	done chan error
}

func follow(t *testing.T, ctx context.Context, addr string) *follower {
	t.Helper()
	f := &follower{want: make(chan int, 1), done: make(chan error, 1)}
	cluster, err := reader.Open(ctx, reader.Config{Server: addr, Transport: reader.TCP})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	go func() { f.done <- f.run(ctx, cluster) }()
	return f
}

func (f *follower) run(ctx context.Context, cluster *reader.Cluster) error {
	var r *reader.Reader
	for r == nil { // until the shard exists
		var err error
		if r, err = cluster.Reader(ctx, shardA.String(), reader.Earliest()); err != nil {
			if !pause(ctx, 10*time.Millisecond) {
				return err
			}
		}
	}
	defer r.Close()
	want := -1
	for want < 0 || f.got.Len() < want {
		select {
		case want = <-f.want:
			continue
		default:
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		b, err := r.Next(short)
		cancel()
		switch {
		case err == nil && b.Position != uint64(f.got.Len()):
			return fmt.Errorf("bytes at %d behind %d", b.Position, f.got.Len())
		case err == nil:
			f.got.Write(b.Data)
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return err
		}
	}
	return nil
}

func (f *follower) check(t *testing.T, ctx context.Context, content []byte) {
	t.Helper()
	f.want <- len(content)
	select {
	case err := <-f.done:
		if err != nil {
			t.Fatalf("a consumer, after %d of %d bytes: %v", f.got.Len(), len(content), err)
		}
	case <-ctx.Done():
		t.Fatal("a consumer does not arrive")
	}
	if !bytes.Equal(f.got.Bytes(), content) {
		t.Errorf("a consumer got %d bytes that are not the %d of the store", f.got.Len(), len(content))
	}
}
