package rdma

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// fakeNIC is a queue whose device is a few lines of Go. It keeps the rules that
// the engine relies on, and reports whoever breaks them: the send queue has
// depth places, which only a polled completion frees; the completion queue holds
// depth completions; READs complete in order, unsignalled ones without a
// completion unless they fail; after the first failure all complete with
// WR_FLUSH_ERR; an armed queue makes one event, for a completion that comes
// after the arming; no READ may be posted into memory that another one in flight
// writes.
type fakeNIC struct {
	t      testing.TB
	depth  int
	remote []byte // the peer's memory, at address 0
	local  []byte

	events chan struct{}
	woken  chan struct{}

	// armHook is called by armPoll before it arms: a place for completions to
	// come too early.
	armHook func()
	// waitHook is called by wait before it makes itself reachable by wake.
	waitHook func()

	mu struct {
		sync.Mutex
		auto      bool // complete at once
		polls     int  // of the completion queue
		posted    uint64
		freed     uint64 // send queue places before it are free
		sq        []fakeWR
		cq        []fakeWC
		armed     bool
		err       bool
		noFlush   bool // in ERR, do not flush (seen on real devices)
		refuse    int  // posts beyond this many more READs are refused; -1 none
		next      ibverbs.Status
		destroyed bool
		closed    bool
	}
}

type fakeWR struct {
	ibverbs.Read
	seq uint64
}

type fakeWC struct {
	ibverbs.WC
	seq uint64
}

func newFakeNIC(t testing.TB, depth, memory int) *fakeNIC {
	n := &fakeNIC{
		t:      t,
		depth:  depth,
		remote: make([]byte, 1<<20),
		local:  make([]byte, memory),
		events: make(chan struct{}, 1),
		woken:  make(chan struct{}, 1),
	}
	for i := range n.remote {
		n.remote[i] = byte(i*7 + i>>8)
	}
	n.mu.refuse = -1
	return n
}

func (n *fakeNIC) engine(spin time.Duration) *engine {
	return newEngine(engineConfig{
		queue:  n,
		depth:  n.depth,
		stuck:  3 * time.Second,
		spin:   spin,
		length: uint64(len(n.remote)),
		mem:    n.local,
	})
}

func (n *fakeNIC) post(reads []ibverbs.Read, wcs []ibverbs.WC, spin time.Duration) (ibverbs.Counts, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.destroyed {
		n.t.Error("post on a destroyed queue pair")
		return ibverbs.Counts{}, ibverbs.ErrDestroyed
	}
	var c ibverbs.Counts
	var err error
	for _, r := range reads {
		if n.mu.refuse == 0 {
			err = &ibverbs.Error{Op: "ibv_post_send", Errno: syscall.ENOMEM}
			break
		}
		if n.mu.refuse > 0 {
			n.mu.refuse--
		}
		if n.mu.posted-n.mu.freed == uint64(n.depth) {
			n.t.Errorf("send queue of %d overflows", n.depth)
			err = &ibverbs.Error{Op: "ibv_post_send", Errno: syscall.ENOMEM}
			break
		}
		for _, w := range n.mu.sq {
			if r.Local < w.Local+uint64(w.Length) && w.Local < r.Local+uint64(r.Length) {
				n.t.Errorf("read into [%d, +%d), where one in flight writes", r.Local, r.Length)
			}
		}
		n.mu.sq = append(n.mu.sq, fakeWR{r, n.mu.posted})
		n.mu.posted++
		c.Posted++
	}
	if n.mu.auto {
		n.completeLocked(len(n.mu.sq))
	}
	if n.mu.err && !n.mu.noFlush {
		n.flushLocked()
	}
	if spin >= 0 {
		c.Polled = n.pollLocked(wcs)
	}
	return c, err
}

func (n *fakeNIC) poll(wcs []ibverbs.WC, spin time.Duration) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pollLocked(wcs), nil
}

func (n *fakeNIC) pollLocked(wcs []ibverbs.WC) int {
	n.mu.polls++
	k := min(len(wcs), len(n.mu.cq))
	for i, wc := range n.mu.cq[:k] {
		wcs[i] = wc.WC
		n.mu.freed = max(n.mu.freed, wc.seq+1)
	}
	n.mu.cq = slices.Delete(n.mu.cq, 0, k)
	return k
}

func (n *fakeNIC) armPoll(wcs []ibverbs.WC) (int, error) {
	if n.armHook != nil {
		n.armHook()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.armed = true
	return n.pollLocked(wcs), nil
}

func (n *fakeNIC) wait(deadline time.Time, stop *atomic.Bool) (bool, error) {
	if n.waitHook != nil {
		n.waitHook()
	}
	select { // the deadline is set anew: an old wake is gone
	case <-n.woken:
	default:
	}
	if stop != nil && stop.Load() {
		return false, nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-n.events:
		return true, nil
	default:
	}
	select {
	case <-n.events:
		return true, nil
	case <-n.woken:
	case <-timer.C:
	}
	return false, nil
}

func (n *fakeNIC) wake() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

func (n *fakeNIC) toErr() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.err = true
	if !n.mu.noFlush {
		n.flushLocked()
	}
	return nil
}

func (n *fakeNIC) destroyQP() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.destroyed = true
	n.mu.sq = nil
	return nil
}

func (n *fakeNIC) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.mu.destroyed || n.mu.closed {
		n.t.Error("closed before the queue pair was destroyed, or twice")
	}
	n.mu.closed = true
	return nil
}

// complete lets the device finish k READs, at most those in flight.
func (n *fakeNIC) complete(k int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.completeLocked(k)
}

func (n *fakeNIC) completeLocked(k int) int {
	done := 0
	for ; done < k && len(n.mu.sq) > 0 && !n.mu.err; done++ {
		w := n.mu.sq[0]
		n.mu.sq = n.mu.sq[1:]
		status := n.mu.next
		n.mu.next = ibverbs.Success
		if status == ibverbs.Success {
			copy(n.local[w.Local:w.Local+uint64(w.Length)], n.remote[w.Remote:])
			if w.Signaled == 0 {
				continue
			}
		} else {
			n.mu.err = true
		}
		n.completionLocked(w, status)
	}
	if n.mu.err && !n.mu.noFlush {
		n.flushLocked()
	}
	return done
}

func (n *fakeNIC) flushLocked() {
	for _, w := range n.mu.sq {
		n.completionLocked(w, ibverbs.WRFlushErr)
	}
	n.mu.sq = nil
}

func (n *fakeNIC) completionLocked(w fakeWR, status ibverbs.Status) {
	if len(n.mu.cq) == n.depth {
		n.t.Errorf("completion queue of %d overruns", n.depth)
	}
	n.mu.cq = append(n.mu.cq, fakeWC{ibverbs.WC{ID: w.ID, Status: status, QPN: 17}, w.seq})
	if n.mu.armed {
		n.mu.armed = false
		n.events <- struct{}{}
	}
}

// failNext makes the next READ fail.
func (n *fakeNIC) failNext(s ibverbs.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.next = s
}

// completeThenFail is complete, and then a READ that fails, with nothing polled in
// between.
func (n *fakeNIC) completeThenFail(k int, s ibverbs.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.completeLocked(k)
	n.mu.next = s
	n.completeLocked(1)
}

// polls is how often the completion queue was polled.
func (n *fakeNIC) polls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.polls
}

func (n *fakeNIC) inFlight() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.mu.sq)
}

// checkSettled is called when the engine has nothing outstanding.
func checkSettled(t testing.TB, e *engine) Stats {
	t.Helper()
	s := e.stats()
	if s.Posted != s.Settled || s.Outstanding != 0 || s.Strays != 0 {
		t.Errorf("not every read settled exactly once: %+v", s)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.abandoned != 0 || e.mu.posting != 0 {
		t.Errorf("%d abandoned, %d posting", e.mu.abandoned, e.mu.posting)
	}
	if e.mu.err == nil && e.mu.waiting.head != nil { // on a lost connection they are about to leave
		t.Error("somebody waits for an empty send queue")
	}
	return s
}

func closeEngine(t testing.TB, e *engine) {
	t.Helper()
	if err := e.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	checkSettled(t, e)
}

func (n *fakeNIC) check(t testing.TB, off uint64, got []byte) {
	t.Helper()
	if want := n.remote[off : off+uint64(len(got))]; !slices.Equal(got, want) {
		t.Errorf("wrong bytes at %d (+%d)", off, len(got))
	}
}

func plan(t testing.TB, b *Batch, off uint64, n int) []byte {
	t.Helper()
	dst := b.Add(off, n)
	if len(dst) != n {
		t.Fatalf("Add(%d, %d) returned %d bytes", off, n, len(dst))
	}
	return dst
}

func newTestBatch(t testing.TB, e *engine, size int) *Batch {
	t.Helper()
	s, err := e.newSlot(size)
	if err != nil {
		t.Fatal(fmt.Errorf("batch of %d bytes: %w", size, err))
	}
	return &Batch{e: e, s: s}
}
