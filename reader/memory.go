package reader

import (
	"errors"
	"time"

	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
)

// memory is one way to read a node's arena. All transports answer the same
// request, bytes at (offset, length), in batches without any order inside.
type memory interface {
	newBatch(size int) (batch, error)
	Lost() <-chan struct{}
	Err() error
	Close() error
}

// batch is a set of reads that are posted and settled together. Slices from Add
// die at Reset or Release. One goroutine at a time.
type batch interface {
	Add(offset uint64, n int) []byte
	Post(deadline time.Time) error
	// Await waits until the reads have settled, or until a time before the deadline
	// of Post: then they are still on their way.
	Await(until time.Time) (settled bool, err error)
	Reset()
	Release()
}

// waker is a batch that can wait for news where the memory is, so that who follows a
// shard is told instead of asking again and again. A transport's batches may be such.
type waker interface {
	batch
	// Wakes reports whether they can at the other end: a node may be older.
	Wakes() bool
	// When adds a condition: that the 8-byte word of the arena at an offset, a multiple
	// of 8, has another value. false: there is no room for one more.
	When(offset, value uint64) bool
	// Extents reports whether AddExtent may be used.
	Extents() bool
	// AddExtent plans a read of an extent of a shard whose place is not known: bytes
	// [from, from+n), wherever the extent is then; zeros if it is not there. The last
	// read of a batch with conditions. nil: there is no room.
	AddExtent(shard [16]byte, extent uint64, from, n int) []byte
	// PostWhen is Post, except that the reads are carried out when one of the conditions
	// holds, or at a time, before the deadline, with what there is then.
	PostWhen(until, deadline time.Time) error
}

// summer is a batch whose reads are copies by this process, which can sum each chunk as it
// passes: see package crccopy.
type summer interface {
	AddSums(offset uint64, n int) (data []byte, sums []uint32)
}

// spinner is a batch that can post and wait a little in one call to the device.
type spinner interface {
	PostSpin(deadline time.Time) error
}

// The transports return their own batch types; these adapters turn them into
// the interface, which is all that the packages do not share.
type (
	shmMemory  struct{ *local.Conn }
	rdmaMemory struct{ *rdma.Conn }
	tcpMemory  struct{ *tcp.Conn }
)

func (m shmMemory) newBatch(size int) (batch, error)  { return asBatch(m.NewBatch(size)) }
func (m rdmaMemory) newBatch(size int) (batch, error) { return asBatch(m.NewBatch(size)) }
func (m tcpMemory) newBatch(size int) (batch, error)  { return asBatch(m.NewBatch(size)) }

// asBatch keeps a nil pointer from becoming a non-nil interface.
func asBatch[B batch](b B, err error) (batch, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// settle posts a batch and waits for it.
func settle(b batch, deadline time.Time) error {
	if err := b.Post(deadline); err != nil {
		return err
	}
	_, err := b.Await(deadline)
	return err
}

// noBuffers reports whether a transport had no memory left for a batch: all of it
// is in use by other Readers, and the path is as good as before.
func noBuffers(err error) bool {
	return errors.Is(err, local.ErrNoBuffers) || errors.Is(err, rdma.ErrNoBuffers) || errors.Is(err, tcp.ErrNoBuffers)
}
