package tcp

import (
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

type state uint8

const (
	planning state = iota
	posted
	settled
	released
)

// Batch is a set of reads that are posted together, and the memory they land in. One goroutine at a time; different batches
// of a Conn are independent.
//
// The slices that Add returned are filled when Wait has returned nil, and die at Reset or Release.
type Batch struct {
	t     *Conn
	class int
	mem   []byte // 1<<class bytes, 8-byte aligned
	room  int    // of mem, as asked for
	used  int
	state state
	reads []wire.ArenaRead
	spans []span
	words []wire.ArenaWord // conditions
	along wire.ExtentRead  // lands behind reads
	calls []*wire.Call
	dst   [][]byte
	head  []byte
}

// span is where a read lands: mem[at:at+n].
type span struct{ at, n int }

// Add plans a read of arena bytes [off, off+n) and returns where they will land: n bytes, 8-byte aligned. It returns nil when
// the batch has no room left for bytes or reads, when n <= 0, when n exceeds 1 MiB, when the range passes the arena's end, or when
// the batch is already posted.
func (b *Batch) Add(off uint64, n int) []byte {
	if b.along.N > 0 || off > b.t.arena || uint64(max(n, 0)) > b.t.arena-off {
		return nil
	}
	p := b.land(n)
	if p != nil {
		b.reads = append(b.reads, wire.ArenaRead{Off: off, N: uint32(n)})
	}
	return p
}

// land makes room for n bytes, if there is.
func (b *Batch) land(n int) []byte {
	at := (b.used + 7) &^ 7
	if b.state != planning || n <= 0 || n > wire.MaxRead || len(b.spans) >= b.t.o.MaxReads || at > b.room || n > b.room-at {
		return nil
	}
	b.used = at + n
	b.spans = append(b.spans, span{at: at, n: n})
	return b.mem[at : at+n : at+n]
}

// Post sends the planned reads and does not wait for them, except for room among the requests of the connection, and that until
// the deadline at most. After an error nothing is in flight: Reset or Release.
func (b *Batch) Post(deadline time.Time) error {
	if b.state != planning || len(b.reads) == 0 || b.along.N > 0 {
		return fmt.Errorf("post of %d reads: %w", len(b.reads), ErrState)
	}
	if err := b.t.Err(); err != nil {
		return err
	}
	b.state = posted
	b.makeRoom()
	for from := 0; from < len(b.reads); {
		to := b.requestEnd(from)
		if err := b.send(deadline, from, to); err != nil {
			b.abandon()
			return err
		}
		from = to
	}
	return nil
}

// makeRoom empties dst, with exact room, because the Calls keep parts of it.
func (b *Batch) makeRoom() {
	if cap(b.dst) < len(b.spans) {
		b.dst = make([][]byte, 0, max(len(b.spans), wire.MaxReads))
	}
	b.dst = b.dst[:0]
}

// requestEnd is the end of the longest run of reads from `from` on that fits a request.
func (b *Batch) requestEnd(from int) int {
	total := 0
	for i := from; i < len(b.spans); i++ {
		if total += b.spans[i].n; total > wire.MaxRead || i-from == wire.MaxReads {
			return i
		}
	}
	return len(b.spans)
}

// send starts one request for reads [from, to).
func (b *Batch) send(deadline time.Time, from, to int) error {
	var err error
	if b.head, err = wire.AppendReadArena(b.head[:0], b.reads[from:to]); err != nil {
		return err
	}
	return b.start(deadline, wire.OpReadArena, from, to)
}

// start starts the request in head, which reads [from, to).
func (b *Batch) start(deadline time.Time, op wire.Op, from, to int) error {
	// Neighbours in memory become one slice, so that the receiver reads far at once.
	first := len(b.dst)
	for i := from; i < to; {
		at := b.spans[i].at
		end := at + b.spans[i].n
		for i++; i < to && b.spans[i].at == end; i++ {
			end += b.spans[i].n
		}
		b.dst = append(b.dst, b.mem[at:end:end])
	}
	var call *wire.Call
	var err error
	dst := b.dst[first:len(b.dst):len(b.dst)]
	if to < len(b.spans) {
		call, err = b.t.c.Queue(deadline, op, b.head, nil, dst)
	} else {
		call, err = b.t.c.Start(deadline, op, b.head, nil, dst)
	}
	if err != nil {
		return fmt.Errorf("tcp read of %d arena ranges: %w", to-from, err)
	}
	b.calls = append(b.calls, call)
	return nil
}

// Wait returns when every read has settled: nil when every slice is filled. The error matches os.ErrDeadlineExceeded past the deadline, a
// *wire.Error when the node refused, wire.ErrLost when the connection has ended. After an error nothing is in flight any more and
// the slices hold garbage: Reset or Release.
func (b *Batch) Wait() error {
	if b.state != posted {
		return fmt.Errorf("wait: %w", ErrState)
	}
	for i, call := range b.calls {
		b.calls[i] = nil
		if _, err := call.Wait(); err != nil {
			b.abandon()
			return fmt.Errorf("tcp read of %d arena ranges, %d B: %w", len(b.reads), b.used, err)
		}
	}
	b.calls = b.calls[:0]
	b.state = settled
	return nil
}

// Await is Wait that leaves at a time, before the deadline of Post, without giving anything up. settled is false when reads are
// still on their way: the batch is as before, to be waited for again.
func (b *Batch) Await(until time.Time) (settled bool, err error) {
	if b.state == posted {
		for _, call := range b.calls {
			if !call.Await(until) {
				return false, nil
			}
		}
	}
	return true, b.Wait()
}

// abandon gives up what is in flight.
func (b *Batch) abandon() {
	for _, call := range b.calls {
		if call != nil {
			call.Abandon()
		}
	}
	clear(b.calls)
	b.calls = b.calls[:0]
	b.state = settled
}

// Reset forgets the planned reads and keeps the memory. What is in flight is given up first.
func (b *Batch) Reset() {
	b.abandon()
	b.reads, b.spans, b.words, b.along, b.used, b.state = b.reads[:0], b.spans[:0], b.words[:0], wire.ExtentRead{}, 0, planning
}

// Release gives the batch back to its Conn, giving up what is in flight: its memory serves another batch only when no read can reach it
// any more. The batch must not be used afterwards.
func (b *Batch) Release() {
	if b.state == released {
		return
	}
	b.Reset()
	b.state = released
	b.t.slabs.put(b)
}
