package server

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// waits are the AwaitArena requests for one memory that have not been answered, by length page. A
// publish looks at one word of its page; only if somebody waits there it has a
// goroutine of the node's compare what they wait for, and answer.
type waits struct {
	arena *chunkstore.Arena
	first uint64 // the pages' slots begin here in the arena
	pages []waitPage
	dirty chan uint32   // pages that were published to; each at most once
	n     *atomic.Int64 // all, of every memory
	ended chan struct{} // closed when the memory is to be closed
	pool  sync.Pool     // of *wait
}

// waitPage is who waits for news of one length page.
type waitPage struct {
	n     atomic.Int32 // how many; what a publish looks at
	dirty atomic.Bool  // in waits.dirty
	mu    struct {
		sync.Mutex
		head, tail *wait // in the order in which they came
	}
	_ [24]byte // neighbours are published to by others
}

// wait is one request. Who takes it out of its page answers it: the page's news,
// its timer, or the end of its connection, which answers nothing.
type wait struct {
	c     *conn
	h     wire.Header
	page  *waitPage
	words []wire.ArenaWord
	reads []wire.ArenaRead
	along wire.ExtentRead
	total int
	timer *time.Timer
	armed bool // timer was set

	linked     bool  // guarded by page.mu, as these two
	prev, next *wait // in the page

	older, newer *wait // in the connection; guarded by conn.waiting
}

const (
	// deliverers is how many goroutines compare and answer, each a page.
	deliverers = 2
	// deliverRun is after how many answers they let others run.
	deliverRun = 16
)

func newWaits(arena *chunkstore.Arena, n *atomic.Int64) *waits {
	g := arena.Geometry()
	return &waits{arena: arena, n: n, first: g.PageSlot(0), pages: make([]waitPage, g.Pages()), dirty: make(chan uint32, g.Pages()), ended: make(chan struct{})}
}

// published takes that the length page at an index has changed, after it has. It is
// called under the page's lock.
func (ws *waits) published(index uint32) {
	p := &ws.pages[index]
	if p.n.Load() == 0 || p.dirty.Swap(true) {
		return
	}
	ws.dirty <- index // has room for all
}

// deliver answers who waits for pages that were published to.
func (ws *waits) deliver(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-ws.ended:
			return
		case index := <-ws.dirty:
			p := &ws.pages[index]
			p.dirty.Store(false) // before the words are compared: what is published from now on has them compared again
			n := 0
			for w := p.take(ws.hasNews); w != nil; n++ {
				next := w.next
				w.next = nil
				w.answer()
				if w = next; n%deliverRun == deliverRun-1 {
					runtime.Gosched() // to those who publish
				}
			}
		}
	}
}

func (ws *waits) hasNews(w *wait) bool { return ws.news(w.words) }

// news reports whether one of the words has another value.
func (ws *waits) news(words []wire.ArenaWord) bool {
	mem := ws.arena.Bytes()
	for _, w := range words {
		if layout.LoadWord(mem, w.Off) != w.Value {
			return true
		}
	}
	return false
}

// stop answers all with what there is.
func (ws *waits) stop() {
	for i := range ws.pages {
		for w := ws.pages[i].take(func(*wait) bool { return true }); w != nil; {
			next := w.next
			w.next = nil
			w.answer()
			w = next
		}
	}
}

// take takes those out for which f reports true, and returns them as a list by next.
func (p *waitPage) take(f func(*wait) bool) (first *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last *wait
	for w := p.mu.head; w != nil; {
		next := w.next
		if f(w) {
			p.unlink(w)
			if last == nil {
				first = w
			} else {
				last.next = w
			}
			last = w
		}
		w = next
	}
	return first
}

// link adds a wait for a time, unless there is news for it. Once it has been added,
// w is its answerer's.
func (ws *waits) link(w *wait, d time.Duration) (linked bool) {
	p := w.page
	p.mu.Lock()
	defer p.mu.Unlock()
	// Counted before the words are compared: what is stored after that finds it counted.
	p.n.Add(1)
	if ws.news(w.words) {
		p.n.Add(-1)
		return false
	}
	w.linked, w.prev = true, p.mu.tail
	if p.mu.tail == nil {
		p.mu.head = w
	} else {
		p.mu.tail.next = w
	}
	p.mu.tail = w
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.expire)
	} else {
		w.timer.Reset(d)
	}
	return true
}

// unlink takes a wait out. The lock is held.
func (p *waitPage) unlink(w *wait) {
	if w.prev == nil {
		p.mu.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		p.mu.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.linked, w.prev, w.next = false, nil, nil
	p.n.Add(-1)
}

// out takes the wait out of its page, unless somebody else has.
func (w *wait) out() bool {
	w.page.mu.Lock()
	defer w.page.mu.Unlock()
	if !w.linked {
		return false
	}
	w.page.unlink(w)
	return true
}

// expire is the timer's.
func (w *wait) expire() {
	if w.out() {
		w.answer()
	}
}

// answer answers a wait that was taken out, unless its client has gone, and ends it. It
// does not wait for a client that does not read: a goroutine does.
func (w *wait) answer() {
	c := w.c
	if c.life.Err() != nil {
		c.ended(w)
		return
	}
	if !c.write.TryLock() { // something is being written
		w.beside(func() {
			c.write.Lock()
			w.gather(&c.write.out)
			w.finish()
		})
		return
	}
	w.gather(&c.write.out)
	if !c.write.out.Begin(c.write.write) {
		w.beside(w.finish)
		return
	}
	c.write.Unlock()
	c.s.counters.writes.Add(1)
	c.ended(w)
}

// gather gathers the answer: bytes of the arena as they are now.
func (w *wait) gather(out *wire.Replies) {
	w.c.gather(out, w.h, w.total, w.reads)
	if w.along.N > 0 {
		w.c.memory.along(out, &w.along)
	}
}

// along adds bytes of an extent to an answer, zeros if it is not there.
func (m *memory) along(out *wire.Replies, e *wire.ExtentRead) {
	if slot, ok := m.arena.Slot(e.ShardHash, e.Extent); ok {
		out.Bytes(m.arena.Bytes()[slot+uint64(e.From):][:e.N])
	} else {
		out.Zeros(int(e.N))
	}
}

// beside runs f in a goroutine, or here when the node stops.
func (w *wait) beside(f func()) {
	if !w.c.s.work.start(f) {
		f()
	}
}

// finish writes what is left of the answer; the right to write is held.
func (w *wait) finish() {
	c := w.c
	defer c.ended(w)
	defer c.write.Unlock()
	if err := c.flushLocked(&c.write.out); err != nil {
		c.in.stop()
	}
}

// awaitArena answers at once when there is news already, else leaves the request to
// the page's news. What exceeds a limit is refused.
func (c *conn) awaitArena(h wire.Header, p []byte) error {
	req, err := wire.ParseAwaitArena(p)
	if err != nil {
		return err
	}
	if err := c.memory.inArena(req.Reads); err != nil {
		return err
	}
	if e := &req.Along; uint64(e.From)+uint64(e.N) > layout.ExtentSize {
		return &wire.Error{Status: wire.StatusBadRequest, Message: fmt.Sprintf("read of %d B at %d of an extent of %d B", e.N, e.From, layout.ExtentSize)}
	}
	ws := c.memory.waits
	index := (req.Words.At(0).Off - ws.first) / layout.PageSize
	if req.Words.At(0).Off < ws.first || index >= uint64(len(ws.pages)) {
		return &wire.Error{Status: wire.StatusBadRequest, Message: fmt.Sprintf("wait for the word at %d, which is in no length page", req.Words.At(0).Off)}
	}
	w := ws.get()
	w.words, w.reads, w.along, w.total = req.Words.AppendTo(w.words[:0]), req.Reads.AppendTo(w.reads[:0]), req.Along, req.Total()
	w.c, w.h, w.page = c, h, &ws.pages[index]
	waits := req.Wait > 0 && !ws.news(w.words)
	if waits {
		if waits, err = c.waitFor(w, min(req.Wait, c.s.cfg.Limits.RequestMax)); waits {
			return nil
		}
	}
	if err == nil {
		w.gather(&c.out)
	}
	ws.put(w)
	return err
}

// waitFor links a wait into its connection and its page, within the limits, unless
// there is news for it.
func (c *conn) waitFor(w *wait, d time.Duration) (linked bool, err error) {
	l := c.s.cfg.Limits
	c.waiting.Lock()
	defer c.waiting.Unlock()
	switch {
	case c.waiting.n >= l.Waits:
		return false, &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d requests of this connection wait for news already", c.waiting.n)}
	case !c.client.addWait(l.ClientWaits):
		return false, &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d requests of this client wait for news already, on all its connections", l.ClientWaits)}
	case c.memory.waits.n.Add(1) > int64(l.AllWaits):
		c.client.waits.Add(-1)
		c.memory.waits.n.Add(-1)
		return false, &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d requests of all connections wait for news already", l.AllWaits)}
	}
	// Its answerer takes it out of the connection, for which it needs the lock.
	c.work.Add(1)
	if !c.memory.waits.link(w, d) {
		c.work.Done()
		c.client.waits.Add(-1)
		c.memory.waits.n.Add(-1)
		return false, nil
	}
	c.waiting.n++
	if w.older = c.waiting.newest; w.older != nil {
		w.older.newer = w
	}
	c.waiting.newest = w
	return true, nil
}

// ended takes a wait, that is out of its page, out of its connection.
func (c *conn) ended(w *wait) {
	c.waiting.Lock()
	if w.newer == nil {
		c.waiting.newest = w.older
	} else {
		w.newer.older = w.older
	}
	if w.older != nil {
		w.older.newer = w.newer
	}
	c.waiting.n--
	c.waiting.Unlock()
	c.client.waits.Add(-1)
	c.memory.waits.n.Add(-1)
	c.memory.waits.put(w)
	c.work.Done()
}

// endWaits ends those of a connection that has ended, unanswered.
func (c *conn) endWaits() {
	for w := c.takeWaits(); w != nil; {
		next := w.next
		w.next = nil
		c.ended(w)
		w = next
	}
}

func (c *conn) takeWaits() (first *wait) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	for w := c.waiting.newest; w != nil; w = w.older {
		if w.out() { // else its answerer waits for the lock, and ends it
			w.next, first = first, w
		}
	}
	return first
}

func (ws *waits) get() *wait {
	if w, ok := ws.pool.Get().(*wait); ok {
		return w
	}
	return new(wait)
}

// put keeps a wait for another request, unless its timer may be about to fire.
func (ws *waits) put(w *wait) {
	if w.armed && !w.timer.Stop() {
		return // it may still look at w
	}
	*w = wait{words: w.words[:0], reads: w.reads[:0], timer: w.timer}
	ws.pool.Put(w)
}
