package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

var testShard = layout.Shard{Stream: "logs", Number: 7}

// trace is what happened, in order.
type trace struct {
	mu struct {
		sync.Mutex
		events []string
	}
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.events = append(t.mu.events, fmt.Sprintf(format, args...))
}

// take returns the events since the last call.
func (t *trace) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.mu.events
	t.mu.events = nil
	return e
}

// fakeLog is a durable log in memory.
type fakeLog struct {
	*trace
	mu struct {
		sync.Mutex
		info   durable.Info
		bytes  []byte // from position 0
		closed bool
		// fail, if set, decides about an append before it happens.
		fail func(off uint64, p []byte) error
		// late are bytes of an append that was given up; Flush makes them durable.
		late []byte
	}
}

func newFakeLog(tr *trace) *fakeLog {
	l := &fakeLog{trace: tr}
	l.mu.info.Incarnation = 42
	return l
}

func (l *fakeLog) Append(_ context.Context, off uint64, p []byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.fail != nil {
		if err := l.mu.fail(off, p); err != nil {
			l.add("append refused")
			return 0, err
		}
	}
	if off != l.mu.info.Length {
		return 0, &wire.Error{Status: wire.StatusOffset, Arg0: l.mu.info.Length}
	}
	l.grow(p)
	l.add("append %d", len(p))
	return l.mu.info.Length, nil
}

func (l *fakeLog) grow(p []byte) {
	l.mu.bytes = append(l.mu.bytes, p...)
	l.mu.info.Length = uint64(len(l.mu.bytes))
}

func (l *fakeLog) Info() durable.Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.info
}

func (l *fakeLog) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grow(l.mu.late)
	l.mu.late = nil
	l.add("flush")
	return nil
}

func (l *fakeLog) Seal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.info.Sealed = true
	l.add("seal")
	return nil
}

func (l *fakeLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	l.add("close")
	return nil
}

func (l *fakeLog) ReadAt(_ context.Context, pos uint64, p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos < l.mu.info.First {
		return 0, &wire.Error{Status: wire.StatusOutOfRetention, Arg0: l.mu.info.First}
	}
	return copy(p[:min(len(p), 1000)], l.mu.bytes[pos:]), nil // in pieces, as a store may
}

// fakeCache is a node's memory by the rules of wire: it checks what it takes.
type fakeCache struct {
	*trace
	t  testing.TB
	mu struct {
		sync.Mutex
		chunks map[uint64][]byte
		entry  layout.Entry
		ballot layout.Ballot
		// fail, if set, decides about a put (of that chunk) or publish (chunk ^0).
		fail func(chunk uint64) error
	}
}

const publishing = ^uint64(0)

func newFakeCache(t testing.TB, tr *trace) *fakeCache {
	c := &fakeCache{trace: tr, t: t}
	c.mu.chunks = make(map[uint64][]byte)
	return c
}

func (c *fakeCache) Put(_ layout.Shard, puts []layout.Put, errs []error) {
	for i, p := range puts {
		errs[i] = c.put(p)
		if whole, ok := p.FromStart(); ok && errors.Is(errs[i], wire.ErrNeedPrefix) {
			errs[i] = c.put(whole)
		}
	}
}

func (c *fakeCache) put(p layout.Put) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.fail != nil {
		if err := c.mu.fail(p.Chunk); err != nil {
			c.add("put %d+%d refused", p.Chunk, p.From)
			return err
		}
	}
	have := c.mu.chunks[p.Chunk]
	if p.From > len(have) {
		c.add("put %d+%d needs prefix", p.Chunk, p.From)
		return &wire.Error{Status: wire.StatusNeedPrefix}
	}
	next := append(bytes.Clone(have[:p.From]), p.Data...)
	if got := layout.ExtendCRC(layout.SeedCRC(p.Shard, p.Chunk), next); got != p.CRC {
		c.t.Errorf("put of chunk %d from %d: CRC %08x, its bytes have %08x", p.Chunk, p.From, p.CRC, got)
	}
	if len(next) > len(have) {
		c.mu.chunks[p.Chunk] = next
	}
	c.add("put %d+%d..%d", p.Chunk, p.From, len(next))
	return nil
}

func (c *fakeCache) Publish(p layout.Publication) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.fail != nil {
		if err := c.mu.fail(publishing); err != nil {
			c.add("publish refused")
			return err
		}
	}
	e := p.Entry
	hash := p.Shard.Hash(e.Incarnation)
	if !e.Valid(hash) {
		c.t.Errorf("publication of length %d does not check", e.Length)
	}
	// The promise: the tail chunk of what is published is there.
	chunk, valid := layout.Tail(e.Length)
	if have := c.mu.chunks[chunk]; len(have) < valid {
		c.t.Errorf("published length %d, but chunk %d has %d of %d bytes", e.Length, chunk, len(have), valid)
	} else if crc := layout.ExtendCRC(layout.SeedCRC(hash, chunk), have[:valid]); crc != e.TailCRC {
		c.t.Errorf("published length %d with tail CRC %08x, the bytes have %08x", e.Length, e.TailCRC, crc)
	}
	if e.Length < c.mu.entry.Length {
		c.t.Errorf("length %d published after %d", e.Length, c.mu.entry.Length)
	}
	c.mu.entry, c.mu.ballot = e, p.Ballot
	if e.Flags&layout.FlagSealed != 0 {
		c.add("publish %d sealed", e.Length)
	} else {
		c.add("publish %d", e.Length)
	}
	return nil
}

// forget makes the cache one that was restarted empty.
func (c *fakeCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.chunks, c.mu.entry = make(map[uint64][]byte), layout.Entry{}
}

func (c *fakeCache) failWith(fail func(chunk uint64) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.fail = fail
}

func (c *fakeCache) length() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.entry.Length
}
