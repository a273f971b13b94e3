package tcp

import (
	"fmt"
	"sync"

	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	defaultBufferBytes = 64 << 20
	defaultMaxBatch    = 1 << 20
	mostMaxBatch       = 64 << 20
)

// Options of a Conn. The zero value is usable.
type Options struct {
	BufferBytes int // bound on the memory of all batches, idle ones with them; 0: 64 MiB
	MaxBatch    int // largest batch in bytes, at most 64 MiB; above 1 MiB a batch takes several requests; 0: 1 MiB
	MaxReads    int // reads of one batch; above 256 a batch takes several requests; 0: 256
}

// Conn reads one node's arena over a wire.Client that others may use at the same time. Safe for any number of goroutines.
type Conn struct {
	c      *wire.Client
	arena  uint64 // size, from the node's Hello
	o      Options
	slabs  slabs
	lost   chan struct{}
	closed chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
}

// New reads over c. The Client stays the caller's: Close of the Conn does not close it.
func New(c *wire.Client, o Options) *Conn {
	if o.BufferBytes <= 0 {
		o.BufferBytes = defaultBufferBytes
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = defaultMaxBatch
	}
	o.MaxBatch = min(o.MaxBatch, mostMaxBatch)
	if o.MaxReads <= 0 {
		o.MaxReads = wire.MaxReads
	}
	t := &Conn{c: c, arena: c.Hello().ArenaSize, o: o, lost: make(chan struct{}), closed: make(chan struct{})}
	t.slabs.limit = o.BufferBytes
	t.ended.Add(1)
	go t.watch()
	return t
}

// watch closes lost for either reason. It ends with the Client or with Close.
func (t *Conn) watch() {
	defer t.ended.Done()
	defer close(t.lost)
	select {
	case <-t.c.Lost():
	case <-t.closed:
	}
}

// NewBatch returns a batch with memory for size bytes of reads (1 to Options.MaxBatch). ErrBatchSize, ErrNoBuffers; ErrClosed or
// the connection's error when the path is gone.
func (t *Conn) NewBatch(size int) (*Batch, error) {
	if size < 1 || size > t.o.MaxBatch {
		return nil, fmt.Errorf("batch of %d B, needs 1 to %d: %w", size, t.o.MaxBatch, ErrBatchSize)
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	b, err := t.slabs.take(size)
	if err != nil {
		return nil, err
	}
	b.t, b.room, b.state = t, size, planning
	return b, nil
}

// Lost is closed once, when the connection has ended or Close was called.
func (t *Conn) Lost() <-chan struct{} { return t.lost }

// Err is nil before Lost; after it, what ended the connection, or ErrClosed.
func (t *Conn) Err() error {
	select {
	case <-t.closed:
		return ErrClosed
	default:
		return t.c.Err()
	}
}

// Close ends the path: Post fails from now on, batches in flight end as they would have. Release them as always.
func (t *Conn) Close() error {
	t.once.Do(func() { close(t.closed) })
	t.ended.Wait()
	return nil
}
