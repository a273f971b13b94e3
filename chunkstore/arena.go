package chunkstore

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Arena is one node's cache. All methods may be called at once by any goroutine.
// No lock is held across I/O, as there is none.
type Arena struct {
	cfg    Config
	header layout.Header
	memory *memory
	mem    []byte // the arena: memory.bytes without what is behind it
	spare  []byte
	start  time.Time

	extents, pages region
	leases         *Leases
	counters       counters

	// closed is set before Close takes all stripes: who holds a stripe and finds
	// it unset may use mem until the stripe is released.
	closed    atomic.Bool
	closeOnce sync.Once
	closeErr  error
}

// region is a table and the places of its arrays in the arena.
type region struct {
	*table
	identity func(index uint32) uint64
	slot     func(index uint32) uint64
	slotSize uint64
}

// New makes an arena, gives it all of its memory, and writes its header. Errors
// match ErrConfig, layout.ErrSize, ErrMemory, ErrHugePages or ErrMemlock.
func New(cfg Config) (*Arena, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	g, err := layout.GeometryFor(cfg.Bytes)
	if err != nil {
		return nil, err
	}
	if g.Size() > math.MaxInt {
		return nil, fmt.Errorf("%w: %d bytes are more than this platform addresses", layout.ErrSize, g.Size())
	}
	for cfg.Epoch == 0 {
		var b [8]byte
		rand.Read(b[:]) // never fails: crypto/rand
		cfg.Epoch = binary.LittleEndian.Uint64(b[:])
	}
	m, err := newMemory(g.Size()+SpareSize, cfg.HugePages, cfg.MLock)
	if err != nil {
		return nil, err
	}
	a := &Arena{
		cfg: cfg, header: layout.Header{Geometry: g, Epoch: cfg.Epoch},
		memory: m, mem: m.bytes[:g.Size():g.Size()], spare: m.bytes[g.Size():][:SpareSize:SpareSize], start: cfg.Clock(),
		extents: region{newTable(g.ExtentSets, cfg.TTL), g.ExtentIdentity, g.ExtentSlot, layout.ExtentSize},
		pages:   region{newTable(g.PageSets, cfg.PageTTL), g.PageIdentity, g.PageSlot, layout.PageSize},
	}
	a.leases = NewLeases(cfg.Leases, cfg.LeaseTTL, cfg.Clock)
	a.header.Encode(a.mem)
	return a, nil
}

// Bytes returns the arena's memory, for a server that copies from it or registers
// it with a NIC. It is read-only by contract, changes at any time, and dies at
// Close: what it read must be validated as package layout says.
func (a *Arena) Bytes() []byte { return a.mem }

// SpareSize is what the memory file has behind the arena, at least.
const SpareSize = 4096

// Spare returns the bytes behind the arena in the memory file, which are zero until
// somebody writes them, and die at Close. They are no part of the arena: they are
// for what hands the file out (rdma/local), to tell consumers of this host of news.
func (a *Arena) Spare() []byte { return a.spare }

// File returns the sealed memory file behind the arena, to hand to consumers on
// this host. The arena owns it: do not close it. It may be longer than the arena
// (whole huge pages). Where there are no such files the error matches ErrUnsupported.
func (a *Arena) File() (*os.File, error) { return a.memory.handle() }

// Epoch returns what names this arena in its header. Never zero.
func (a *Arena) Epoch() uint64 { return a.header.Epoch }

// Geometry returns the number of sets of both tables.
func (a *Arena) Geometry() layout.Geometry { return a.header.Geometry }

// Leases returns the leases by which Publish goes.
func (a *Arena) Leases() *Leases { return a.leases }

// Close unmaps the arena, after puts and publishes that are under way; later ones
// return ErrClosed. Whoever reads Bytes must have stopped before. Consumers that
// have mapped the file keep its memory.
func (a *Arena) Close() error {
	a.closeOnce.Do(func() {
		a.closed.Store(true)
		for _, t := range []*table{a.extents.table, a.pages.table} {
			t.lockAll()
			defer t.unlockAll()
		}
		a.closeErr = a.memory.close()
	})
	return a.closeErr
}

func (a *Arena) age(now time.Time) time.Duration { return now.Sub(a.start) }

// claim gives a key that is not in the region a way of its own, which consumers
// find empty. The stripes of the sets must be held.
func (a *Arena) claim(r *region, s sets, k key, now time.Duration) (index uint32) {
	index = r.choose(s, now)
	if r.ways[index].used {
		a.evict(r, index, now)
	}
	r.take(index, k, now)
	a.identify(r, index)
	return index
}

// evict makes a way empty for consumers and for the table.
func (a *Arena) evict(r *region, index uint32, now time.Duration) {
	a.hide(r, index)
	r.drop(index, now)
}

// hide empties a way: its identity, then what proves its bytes, that is an
// extent's descriptors or a page's entries. A consumer that still goes by the old
// identity finds nothing there, and must not be left with a length page that
// validates and never moves again.
func (a *Arena) hide(r *region, index uint32) {
	layout.StoreWord(a.mem, r.identity(index)+24, 0)
	at := r.slot(index)
	slot := a.mem[at:][:r.slotSize]
	if r.slotSize == layout.PageSize {
		clear(slot)
		a.published(index, -1)
		return
	}
	first := a.header.Geometry.Descriptors(index)
	for i := range uint64(layout.ChunksPerExtent) {
		layout.StoreWord(a.mem, first+i*layout.DescriptorSize, 0)
	}
	if a.cfg.Evicted == PoisonEvicted {
		for i := range slot {
			slot[i] = 0xdb
		}
	}
}

// identify writes the identity of a hidden way, the word that makes it count last.
func (a *Arena) identify(r *region, index uint32) {
	w := &r.ways[index]
	words := layout.Identity{Key: w.hash, Number: w.number, Generation: w.generation}.Words()
	for i, v := range words {
		layout.StoreWord(a.mem, r.identity(index)+uint64(i)*8, v)
	}
}
