package tcp

import (
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Wakes reports whether the node answers batches that wait for news (PostWhen).
func (b *Batch) Wakes() bool { return b.t.c.Hello().Features&wire.FeatureAwait != 0 }

// When adds a condition to the batch: that the 8-byte word of the arena at off has another value. False when off is not a multiple of
// 8, or not in one aligned block of 4,096 B with the other conditions, when there are 128, or when the batch is already posted.
func (b *Batch) When(off, value uint64) bool {
	if b.state != planning || off%8 != 0 || len(b.words) >= wire.MaxAwaitWords || len(b.words) > 0 && off/4096 != b.words[0].Off/4096 {
		return false
	}
	b.words = append(b.words, wire.ArenaWord{Off: off, Value: value})
	return true
}

// Extents reports whether the node reads extents whose place the client does not know (AddExtent).
func (b *Batch) Extents() bool { return b.t.c.Hello().Features&wire.FeatureExtents != 0 }

// AddExtent plans a read of bytes [from, from+n) of an extent of a shard, wherever the node has it when it carries the batch out, and returns
// where they will land; zeros if it lacks the extent. It comes last, once, and goes with PostWhen only. It returns nil when the batch has no
// room left, when n <= 0, or when the batch is already posted.
func (b *Batch) AddExtent(shard [16]byte, extent uint64, from, n int) []byte {
	if b.along.N > 0 || from < 0 || from > wire.MaxRead {
		return nil
	}
	p := b.land(n)
	if p != nil {
		b.along = wire.ExtentRead{ShardHash: shard, Extent: extent, From: uint32(from), N: uint32(n)}
	}
	return p
}

// PostWhen is Post, except that the node carries out the reads when one of the conditions holds, or after the time until `until`, with
// what there is then: a batch that fits one request (256 reads, 1 MiB), with a condition at least. deadline should leave the answer time
// to come after that. Conditions must lie in a length page of the node, else Wait says wire.ErrBadRequest; it says wire.ErrBusy
// when the node lets no more wait.
func (b *Batch) PostWhen(until, deadline time.Time) error {
	if b.state != planning || len(b.reads) == 0 || len(b.words) == 0 || b.requestEnd(0) < len(b.spans) {
		return fmt.Errorf("post of %d reads, %d B, under %d conditions: %w", len(b.reads), b.used, len(b.words), ErrState)
	}
	if err := b.t.Err(); err != nil {
		return err
	}
	b.state = posted
	b.makeRoom()
	req := wire.AwaitArena{Wait: max(min(time.Until(until), wire.MaxAwait), 0), Words: b.words, Reads: b.reads, Along: b.along}
	var err error
	if b.head, err = req.AppendTo(b.head[:0]); err == nil {
		err = b.start(deadline, wire.OpAwaitArena, 0, len(b.spans))
	}
	if err != nil {
		b.abandon()
		return err
	}
	return nil
}
