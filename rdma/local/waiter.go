package local

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	// unitBytes is what one bit of the wake word's bits is about.
	unitBytes = 32
	pageBytes = 4096
	allBits   = ^uint32(0)
	// waitMost bounds one wait for the wake word, and kickEvery the time in which one
	// that has to know of more bits is ended.
	waitMost  = 100 * time.Millisecond
	kickEvery = time.Millisecond
	// idleRest is how long the goroutine rests when it was woken for nothing twice in so
	// long a time: a neighbour that is busy must not keep it busy.
	idleRest = time.Millisecond
)

// bitsOf returns the bits of n bytes of the arena at an offset.
func bitsOf(off uint64, n int) uint32 {
	if n >= 32*unitBytes {
		return allBits
	}
	var set uint32
	for o := off &^ (unitBytes - 1); o < off+uint64(n); o += unitBytes {
		set |= 1 << ((o/unitBytes + o/pageBytes) % 32)
	}
	return set
}

// wakeWord returns the wake word behind an arena; nil: there is none.
func wakeWord(behind []byte) *uint32 {
	if len(behind) < 4 {
		return nil
	}
	return (*uint32)(unsafe.Pointer(unsafe.SliceData(behind))) // a page border: aligned
}

// loadWord atomically loads the aligned little-endian word at an offset.
func loadWord(mem []byte, off uint64) uint64 {
	b := mem[off : off+8 : off+8]
	v := atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))))
	if bigEndian {
		v = bits.ReverseBytes64(v)
	}
	return v
}

// bigEndian is fixed for a platform; the arena's words are little-endian on all.
var bigEndian = func() bool {
	v := uint16(1)
	return *(*byte)(unsafe.Pointer(&v)) == 0
}()

// waiter waits for the wake word of one mapping, for all batches that wait. Its
// goroutine begins with the first of them and ends with the connection; while none
// waits it does not look at the word.
type waiter struct {
	arena []byte
	word  *uint32       // nil: the node never wakes
	most  time.Duration // of one wait for it
	news  chan struct{}
	ended chan struct{}
	mu    struct {
		sync.Mutex
		batches []*Batch
		bits    uint32 // of all batches that ever waited
		asleep  uint32 // for which of them the goroutine waits, or is about to
		parked  bool   // it waits for news instead
		started bool
		stopped bool
		looks   int // at what the batches wait for
	}
}

func (w *waiter) init(arena, behind []byte) {
	w.arena, w.word, w.most = arena, wakeWord(behind), waitMost
	w.news, w.ended = make(chan struct{}, 1), make(chan struct{})
}

// wakes reports whether the node does. Not after stop: the word goes with the mapping.
func (w *waiter) wakes() bool { return w.word != nil && atomic.LoadUint32(w.word) != 0 }

// add has a batch wait, unless what it waits for is there: then it is ready.
func (w *waiter) add(b *Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.stopped { // the batch learns it by the connection's end
		return
	}
	if b.when.holds(w.arena) {
		b.when.ready <- struct{}{}
		return
	}
	b.when.listed = true
	w.mu.batches = append(w.mu.batches, b)
	w.mu.bits |= b.when.bits
	switch {
	case !w.mu.started:
		w.mu.started = true
		w.mu.asleep = w.mu.bits
		go w.run()
	case w.mu.parked: // it looks at all of them before it sleeps
		w.mu.parked, w.mu.asleep = false, w.mu.bits
		w.tell()
	}
}

func (w *waiter) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// remove ends a batch's wait.
func (w *waiter) remove(b *Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.when.listed {
		w.mu.batches = without(w.mu.batches, b)
		b.when.listed = false
	}
	select {
	case <-b.when.ready:
	default:
	}
}

// without takes b out of all, whose order does not matter.
func without(all []*Batch, b *Batch) []*Batch {
	for i := range all {
		if all[i] == b {
			last := len(all) - 1
			all[i], all[last] = all[last], nil
			return all[:last]
		}
	}
	return all
}

// covers reports whether the goroutine is woken by what a batch waits for. If not, it
// is ended in its wait, to look again, which has to be tried again until it was.
func (w *waiter) covers(b *Batch) bool {
	w.mu.Lock()
	covered := b.when.bits&^w.mu.asleep == 0 || w.mu.stopped
	w.mu.Unlock()
	if !covered {
		futexWake(w.word, allBits)
	}
	return covered
}

// run waits for the word. It sees the word before what the batches wait for, so that a
// change behind its back changes the word too.
func (w *waiter) run() {
	defer close(w.ended)
	var idle time.Time // when it was woken for nothing
	last := atomic.LoadUint32(w.word)
	for {
		seen := atomic.LoadUint32(w.word)
		fired, bits, stopped := w.fire()
		switch {
		case stopped:
			return
		case bits == 0:
			<-w.news
			last = atomic.LoadUint32(w.word)
			continue
		case fired == 0 && seen != last:
			now := time.Now()
			if now.Sub(idle) < idleRest {
				time.Sleep(idleRest)
			}
			idle = now
		}
		last = seen
		futexWait(w.word, seen, bits, w.most)
	}
}

// fire makes the batches ready whose conditions hold, and returns how many, and what
// the goroutine is to wait for; 0: for news.
func (w *waiter) fire() (fired int, bits uint32, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.looks++
	for i := 0; i < len(w.mu.batches); {
		b := w.mu.batches[i]
		if !b.when.holds(w.arena) {
			i++
			continue
		}
		b.when.listed = false
		b.when.ready <- struct{}{} // has room: it was listed, and is not twice
		w.mu.batches = without(w.mu.batches, b)
		fired++
	}
	w.mu.asleep = 0
	if w.mu.parked = len(w.mu.batches) == 0; !w.mu.parked {
		w.mu.asleep = w.mu.bits
	}
	return fired, w.mu.asleep, w.mu.stopped
}

// stop ends the goroutine, so that nothing looks at the mapping any more.
func (w *waiter) stop() {
	w.mu.Lock()
	w.mu.stopped = true
	started := w.mu.started
	w.mu.Unlock()
	if !started {
		return
	}
	w.tell()
	tick := time.NewTicker(kickEvery)
	defer tick.Stop()
	for {
		futexWake(w.word, allBits)
		select {
		case <-w.ended:
			return
		case <-tick.C: // it may have been about to sleep
		}
	}
}
