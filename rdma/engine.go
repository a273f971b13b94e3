package rdma

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// engine moves batches of READs through one queue pair. It counts every work
// request from posting to settling, matches completions by wr_id, and decides
// who polls.
//
// # Settling
//
// Only the last READ of a batch is signalled. An RC send queue completes in
// order (IBA specification 1.4, section 10.8.3.1), so its completion settles the
// whole batch. A READ that fails makes a completion, signalled or not, and so do
// all after it, with WR_FLUSH_ERR; those before it in the batch are settled by
// it, and have their data. The completion queue has room for every READ, as all
// may fail. Hence each READ is settled exactly once: settled in a slot is next,
// which only grows.
//
// # Leader and followers
//
// Callers that wait race for a semaphore of one: the leader polls for all and
// hands each batch its result; the others sleep on their batch's channel. A
// leader whose own batch is done gives the semaphore up, and one of the others
// takes it. The leader spins for a bounded time, arms the completion queue, polls
// again (a completion that came before the arming makes no event), and sleeps in
// Go's netpoller.
//
// # Losing
//
// The first error settles what is wrong for good: it is kept as the root cause,
// lost is closed, and no further READ is posted. The janitor goroutine then
// drives the queue pair to ERR, settles what is outstanding, destroys it, and
// frees everything. It also leads for batches that nobody waits for any more.
type engine struct {
	q      queue
	depth  int
	stuck  time.Duration // see Config.stuckAfter
	base   uint64        // the peer's memory
	length uint64
	mem    []byte // the slab's memory
	// freed is called once when no batch can refer to mem any more.
	freed func()
	peer  netip.Addr // for messages
	// onLost is called once, by the janitor, with the root cause.
	onLost func(error)

	lead  semaphore     // whoever has it leads
	lost  chan struct{} // closed with the root cause set
	kick  chan struct{} // of capacity 1: the janitor has something to do
	ended chan struct{} // closed when the janitor is done
	dead  atomic.Bool   // the root cause is set

	mu struct {
		sync.Mutex
		err         error // root cause
		closeErr    error // of freeing the queue
		slab        *slab
		slots       []*slot // by slot.num
		free        []*slot
		held        int // batches not released
		credits     int // READs that may be posted
		waiting     slotList
		posting     int // calls of queue.post going on
		idle        chan struct{}
		outstanding int
		abandoned   int // slots that nobody waits for, with READs outstanding
		stats       Stats
		gone        bool // drained and closed
	}

	// The leader's.
	wcs   []ibverbs.WC
	armed bool // an event will come or is there, not taken yet
	spin  spinner

	spun, slept atomic.Uint64
}

// Stats counts what a Conn did. Posted = Settled + Outstanding at all times.
type Stats struct {
	Batches     uint64 // posted
	Posted      uint64 // READs that the send queue took
	Settled     uint64 // READs that completed, or whose queue pair was destroyed
	Outstanding uint64
	Errors      uint64 // completions with an error
	Destroyed   uint64 // of Settled: by destroying the queue pair
	Strays      uint64 // completions that match nothing; always 0
	Abandoned   uint64 // batches that were not done at their deadline
	Spun        uint64 // waits that ended while polling
	Slept       uint64 // waits that slept
	Credits     uint64 // Posts that had to wait for the send queue
}

type engineConfig struct {
	queue  queue
	depth  int
	stuck  time.Duration
	spin   time.Duration
	base   uint64
	length uint64
	mem    []byte
	freed  func()
	peer   netip.Addr
	onLost func(error)
}

// maxPoll is how many completions one poll takes.
const maxPoll = 64

func newEngine(c engineConfig) *engine {
	e := &engine{
		q:      c.queue,
		depth:  c.depth,
		stuck:  c.stuck,
		base:   c.base,
		length: c.length,
		mem:    c.mem,
		freed:  c.freed,
		peer:   c.peer,
		onLost: c.onLost,
		lead:   newSemaphore(),
		lost:   make(chan struct{}),
		kick:   make(chan struct{}, 1),
		ended:  make(chan struct{}),
		wcs:    make([]ibverbs.WC, maxPoll),
		spin:   spinner{max: max(c.spin, 0)},
	}
	e.mu.slab = newSlab(len(c.mem))
	e.mu.credits = c.depth
	go e.janitor()
	return e
}

// fail loses the connection, with err as the root cause if it is the first.
func (e *engine) fail(err error) {
	e.mu.Lock()
	e.failLocked(err)
	e.mu.Unlock()
}

func (e *engine) failLocked(err error) {
	if e.mu.err != nil {
		return
	}
	e.mu.err = err
	e.dead.Store(true)
	close(e.lost)
	e.kickJanitor()
	// After dead: a leader about to sleep sees one or the other.
	e.q.wake()
}

func (e *engine) kickJanitor() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

func (e *engine) rootCause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.err
}

// close loses the connection and waits until all is freed, at most some seconds.
func (e *engine) close() error {
	e.fail(ErrClosed)
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.closeErr
}

func (e *engine) stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.mu.stats
	s.Outstanding = uint64(e.mu.outstanding)
	s.Spun += e.spun.Load()
	s.Slept = e.slept.Load()
	return s
}
