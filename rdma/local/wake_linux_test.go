package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writable is a node's own mapping of its memory file, made before the seals.
type writable struct {
	*Server
	mem  []byte
	path string
}

func wakingServer(t *testing.T) *writable {
	t.Helper()
	w := &writable{path: socketPath(t)}
	file := testFile(t, 0)
	var err error
	if w.mem, err = unix.Mmap(int(file.Fd()), 0, fileSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	clear(w.mem[arenaSize:])
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, allSeals); err != nil {
		t.Fatal(err)
	}
	if w.Server, err = (ListenConfig{Word: w.mem[arenaSize:]}).Listen(w.path, file, arenaSize, testEpoch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), unix.Munmap(w.mem)); err != nil {
			t.Error(err)
		}
	})
	return w
}

// set changes a word of the arena, and tells of it.
func (w *writable) set(off, v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&w.mem[off])), v)
	w.Wake(off, 8)
}

// dial connects a consumer whose waits have no bound but their own.
func (w *writable) dial(t *testing.T) *Conn {
	t.Helper()
	c := dial(t, w.path)
	c.waiter.most = time.Hour
	return c
}

func later() time.Time { return time.Now().Add(time.Minute) }

// waitFor posts a read of a word under the condition that it has changed.
func waitFor(t testing.TB, b *Batch, off, old uint64, until time.Time) []byte {
	t.Helper()
	got := b.Add(off, 8)
	if got == nil || !b.When(off, old) {
		t.Fatal("no room")
	}
	if err := b.PostWhen(until, until.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestRealWake waits for a word in a read-only mapping, which is changed in another one.
func TestRealWake(t *testing.T) {
	w := wakingServer(t)
	c := w.dial(t)
	b := newBatch(t, c, 64)
	defer b.Release()
	if !b.Wakes() {
		t.Fatal("the node does not wake")
	}
	const off = 4096 * 5
	old := wordAt(off, testEpoch)
	for i := range 20 {
		got := waitFor(t, b, off, old, later())
		if settled, err := b.Await(time.Now().Add(time.Millisecond)); settled || err != nil {
			t.Fatalf("before the change: %v, %v", settled, err)
		}
		w.set(off+4096+64, uint64(i)) // another word: nobody waits for it
		next := uint64(1000 + i)
		go w.set(off, next)
		began := time.Now()
		if settled, err := b.Await(later()); !settled || err != nil || binary.LittleEndian.Uint64(got) != next {
			t.Fatalf("%v, %v, %d after %s", settled, err, binary.LittleEndian.Uint64(got), time.Since(began))
		}
		b.Reset()
		old = next
	}
	// What has changed already is not waited for.
	got := waitFor(t, b, off, 0, later())
	if settled, err := b.Await(time.Now()); !settled || err != nil || binary.LittleEndian.Uint64(got) != old {
		t.Fatalf("changed before: %v, %v", settled, err)
	}
	b.Reset()
	// Nothing changes: the batch's own time.
	began := time.Now()
	waitFor(t, b, off, old, began.Add(30*time.Millisecond))
	if err := b.Wait(); err != nil || time.Since(began) < 30*time.Millisecond {
		t.Fatalf("nothing changed: %v after %s", err, time.Since(began))
	}
}

// TestRealNoWakeUpIsLost has waits for words everywhere begin and end while these are
// changed: one that misses a change hangs.
func TestRealNoWakeUpIsLost(t *testing.T) {
	w := wakingServer(t)
	const consumers, changes = 8, 400
	conns := []*Conn{w.dial(t), w.dial(t)}
	var running sync.WaitGroup
	for k := range consumers {
		running.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(k), 1))
			for i := range changes {
				// Words of its own, so that it knows their values.
				off := uint64(rnd.IntN(arenaSize/64/consumers)*consumers+k) * 64
				old := atomic.LoadUint64((*uint64)(unsafe.Pointer(&w.mem[off])))
				b, err := conns[(k+i)%2].NewBatch(64)
				if err != nil {
					t.Error(err)
					return
				}
				got := b.Add(off, 8)
				if !b.When(off, old) {
					t.Error("no room")
				}
				if k%2 == 0 { // before the wait begins, while it does, or after
					go w.set(off, old+1)
				}
				if err := b.PostWhen(later(), later()); err != nil {
					t.Error(err)
				}
				if k%2 == 1 {
					go w.set(off, old+1)
				}
				if settled, err := b.Await(time.Now().Add(30 * time.Second)); !settled || err != nil || binary.LittleEndian.Uint64(got) != old+1 {
					t.Errorf("consumer %d, change %d at %d: settled %v, %v", k, i, off, settled, err)
					return
				}
				b.Release()
			}
		})
	}
	running.Wait()
}

// TestRealNoWakeUpIsLostAlone has nothing but the one change wake the one wait, at any
// moment of its beginning.
func TestRealNoWakeUpIsLostAlone(t *testing.T) {
	w := wakingServer(t)
	c := w.dial(t)
	b := newBatch(t, c, 64)
	defer b.Release()
	v := wordAt(0, testEpoch)
	begin, changed := make(chan int), make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for spins := range begin {
			for range spins {
				runtime.Gosched()
			}
			w.set(0, v+1)
			changed <- struct{}{}
		}
	})
	defer changing.Wait()
	defer close(begin)
	for i := range 20_000 {
		b.Add(0, 8)
		if !b.When(0, v) {
			t.Fatal("no room")
		}
		begin <- i % 40
		if err := b.PostWhen(later(), later()); err != nil {
			t.Fatal(err)
		}
		settled, err := b.Await(time.Now().Add(20 * time.Second))
		<-changed
		if !settled || err != nil {
			t.Fatalf("wait %d: %v, %v", i, settled, err)
		}
		v++
		b.Reset()
	}
}

// TestRealBusyNeighbour changes another word with the same bit, as fast as it can be.
func TestRealBusyNeighbour(t *testing.T) {
	w := wakingServer(t)
	c := w.dial(t)
	b := newBatch(t, c, 64)
	defer b.Release()
	got := waitFor(t, b, 0, wordAt(0, testEpoch), later())
	const neighbour = 32 * unitBytes
	if bitsOf(0, 8) != bitsOf(neighbour, 8) {
		t.Fatal("no neighbour")
	}
	began, changes := time.Now(), 0
	for ; time.Since(began) < 300*time.Millisecond; changes++ {
		w.set(neighbour, uint64(changes))
	}
	took := time.Since(began)
	c.waiter.mu.Lock()
	looks := c.waiter.mu.looks
	c.waiter.mu.Unlock()
	if most := 3*int(took/idleRest) + 10; looks > most || changes < 10*looks {
		t.Errorf("%d looks at %d changes in %s, want at most %d", looks, changes, took, most)
	}
	w.set(0, 5)
	if settled, err := b.Await(later()); !settled || err != nil || binary.LittleEndian.Uint64(got) != 5 {
		t.Fatalf("%v, %v", settled, err)
	}
}

// TestRealOneThreadWaits for however many batches there are.
func TestRealOneThreadWaits(t *testing.T) {
	w := wakingServer(t)
	c := w.dial(t)
	var all []*Batch
	for i := range 100 {
		b := newBatch(t, c, 64)
		waitFor(t, b, uint64(i)*4096, wordAt(uint64(i)*4096, testEpoch), later())
		all = append(all, b)
	}
	c.waiter.mu.Lock()
	listed := len(c.waiter.mu.batches)
	c.waiter.mu.Unlock()
	if listed != 100 {
		t.Fatalf("%d batches wait", listed)
	}
	w.set(7*4096, 1)
	if err := all[7].Wait(); err != nil {
		t.Fatal(err)
	}
	for i, b := range all {
		if i == 7 {
			continue
		}
		if settled, err := b.Await(time.Now()); settled || err != nil {
			t.Fatalf("batch %d: %v, %v", i, settled, err)
		}
	}
	for _, b := range all {
		b.Release() // also those that wait
	}
	until(t, "nobody looks at the word", func() bool {
		c.waiter.mu.Lock()
		defer c.waiter.mu.Unlock()
		return len(c.waiter.mu.batches) == 0
	})
}

// TestRealEndOfAWait by either side.
func TestRealEndOfAWait(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*writable, *Conn) error
		want error
	}{
		{"closed", func(_ *writable, c *Conn) error { return c.Close() }, ErrClosed},
		{"node ends", func(w *writable, _ *Conn) error { return w.Close() }, ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := wakingServer(t)
			conn := w.dial(t)
			ended := make(chan error, 4)
			for i := range cap(ended) {
				b := newBatch(t, conn, 64)
				waitFor(t, b, uint64(i)*64, wordAt(uint64(i)*64, testEpoch), later())
				go func() {
					_, err := b.Await(later())
					b.Release()
					ended <- err
				}()
			}
			if err := c.end(w, conn); err != nil {
				t.Error(err)
			}
			for range cap(ended) {
				select {
				case err := <-ended:
					if !errors.Is(err, c.want) {
						t.Error(err)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("still waiting")
				}
			}
		})
	}
}

func init() {
	// The node of TestRealWakeFromAnotherProcess: each line has it change the word.
	roles["wake"] = func() int {
		file, err := memoryFile(0)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		mem, err := unix.Mmap(int(file.Fd()), 0, fileSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			clear(mem[arenaSize:])
			_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, allSeals)
		}
		w := &writable{mem: mem}
		if err == nil {
			w.Server, err = (ListenConfig{Word: mem[arenaSize:]}).Listen(os.Getenv("RMATAIL_LOCAL_TEST_PATH"), file, arenaSize, testEpoch)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("ready")
		var v uint64
		for {
			if _, err := fmt.Scan(&v); err != nil {
				w.Close()
				return 0
			}
			w.set(0, v)
		}
	}
}

func TestRealWakeFromAnotherProcess(t *testing.T) {
	path := socketPath(t)
	p, in := roleElsewhere(t, "wake", path)
	c := dial(t, path)
	c.waiter.most = time.Hour
	b := newBatch(t, c, 64)
	defer b.Release()
	old := wordAt(0, testEpoch)
	for v := range uint64(10) {
		got := waitFor(t, b, 0, old, later())
		fmt.Fprintln(in, v)
		if settled, err := b.Await(later()); !settled || err != nil || binary.LittleEndian.Uint64(got) != v {
			t.Fatalf("%v, %v", settled, err)
		}
		b.Reset()
		old = v
	}
	waitFor(t, b, 0, old, later())
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if settled, err := b.Await(later()); !settled || !errors.Is(err, ErrLost) {
		t.Fatalf("after the node's death: %v, %v", settled, err)
	}
}

// TestRealNodesThatDoNotWake: an older one, and one whose consumers have gone.
func TestRealNodesThatDoNotWake(t *testing.T) {
	w := wakingServer(t)
	word := func() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&w.mem[arenaSize]))) }
	before := word()
	w.set(0, 1)
	if before == 0 || word() != before {
		t.Errorf("the word went from %d to %d with nobody connected", before, word())
	}
	c := w.dial(t)
	w.set(0, 2)
	if word() == before {
		t.Error("the word did not change with a consumer connected")
	}
	c.waiter.word = new(uint32) // as behind the arena of an older node
	b := newBatch(t, c, 64)
	defer b.Release()
	b.Add(0, 8)
	if !b.When(0, 0) || b.Wakes() || !errors.Is(b.PostWhen(later(), later()), ErrState) {
		t.Error("waits for a node that does not wake")
	}
}

// TestRealWaitsOfAnEndedConn: who goes on to wait when the connection has ended, and the mapping
// with it, is told so.
func TestRealWaitsOfAnEndedConn(t *testing.T) {
	c := wakingServer(t).dial(t)
	b := newBatch(t, c, 64)
	defer b.Release()
	if b.Add(0, 8) == nil || !b.When(0, 0) || !b.Wakes() {
		t.Fatal("does not wake")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Wakes() {
		t.Error("a connection that has ended wakes")
	}
	if err := b.PostWhen(later(), later()); !errors.Is(err, ErrClosed) {
		t.Errorf("a wait after the end: %v", err)
	}
}

func TestRealConditions(t *testing.T) {
	w := wakingServer(t)
	b := newBatch(t, w.dial(t), 64)
	if b.Add(0, 8) == nil || !errors.Is(b.PostWhen(later(), later()), ErrState) {
		t.Error("waits without a condition")
	}
	if b.When(4, 0) || b.When(arenaSize, 0) || b.When(^uint64(0)-7, 0) || !b.When(arenaSize-8, 0) {
		t.Error("conditions outside of the arena or its words")
	}
	for range MaxWords - 1 {
		if !b.When(0, 0) {
			t.Fatal("no room")
		}
	}
	if b.When(0, 0) {
		t.Error("room without an end")
	}
	b.Release()
	if b.When(0, 0) {
		t.Error("a condition of a batch that is gone")
	}
}

func TestRealWaitAllocates(t *testing.T) {
	w := wakingServer(t)
	b := newBatch(t, w.dial(t), 64)
	defer b.Release()
	v := wordAt(0, testEpoch)
	if n := testing.AllocsPerRun(100, func() {
		b.Add(0, 8)
		if !b.When(0, v) || b.PostWhen(later(), later()) != nil {
			t.Fatal("not posted")
		}
		v++
		w.set(0, v)
		if b.Wait() != nil {
			t.Fatal("failed")
		}
		b.Reset()
	}); n != 0 {
		t.Errorf("%v allocations a wait", n)
	}
}
