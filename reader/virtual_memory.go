package reader

import (
	"encoding/binary"
	"os"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// virtualMemory is a connection over which nothing goes: batches only count.
type virtualMemory struct{ v *Virtual }

func (m virtualMemory) newBatch(int) (batch, error) {
	v := m.v
	if n := len(v.batches); n > 0 {
		b := v.batches[n-1]
		v.batches = v.batches[:n-1]
		return b, nil
	}
	return &virtualBatch{v: v}, nil
}

func (virtualMemory) Lost() <-chan struct{} { return nil }
func (virtualMemory) Err() error            { return nil }
func (virtualMemory) Close() error          { return nil }

// virtualBatch counts the reads that are added to it.
type virtualBatch struct {
	v            *Virtual
	reads, bytes int
}

func (b *virtualBatch) Add(_ uint64, n int) []byte {
	p := b.v.site.scratch[b.bytes : b.bytes+n : b.bytes+n]
	b.reads, b.bytes = b.reads+1, b.bytes+n
	return p
}

func (b *virtualBatch) Post(time.Time) error          { return nil }
func (b *virtualBatch) Await(time.Time) (bool, error) { return false, os.ErrDeadlineExceeded }
func (b *virtualBatch) Reset()                        { b.reads, b.bytes = 0, 0 }

func (b *virtualBatch) Release() {
	b.Reset()
	b.v.batches = append(b.v.batches, b)
}

// landed takes an answer to reads of length pages, or that there was none in time.
func (v *Virtual) landed(a *Ask, now time.Time) {
	visit := a.visit
	switch {
	case a.failing:
		visit.end(os.ErrDeadlineExceeded)
	case visit.state == visitLocating:
		visit.via.took(now, 0, a.posted, a.posted)
		v.fillPageSets(visit)
		visit.locate()
		visit.b.Reset()
		visit.read()
		a.relocated = true
		v.visit(a, now)
		return
	default:
		visit.via.took(now, 0, a.posted, a.posted)
		v.fillEntries(a)
		visit.state = visitOver
	}
	v.visited(a, now)
}

// fillEntries puts what the node says of each shard where its entry is looked for.
func (v *Virtual) fillEntries(a *Ask) {
	for i := range a.visit.looks {
		l := &a.visit.looks[i]
		if l.bytes == nil {
			continue
		}
		for _, f := range l.shards {
			e := v.site.world.Published(a.Node, v.site.numbers[f.shard], a.served)
			if e.Incarnation != 0 {
				e = e.Seal(f.hash)
			}
			at := l.bytes[f.shard.EntryOffset()-l.first:]
			for j, w := range e.Words() {
				binary.LittleEndian.PutUint64(at[8*j:], w)
			}
		}
	}
}

// fillPageSets puts the identities of the pages that are looked up into their sets.
func (v *Virtual) fillPageSets(visit *visit) {
	for i := range visit.looks {
		l := &visit.looks[i]
		if l.locate {
			l.sets = [2][]byte{v.set(maxSpans+i, l.page.key, l.page.number), nil}
		}
	}
}

// fillSets puts the identities of the extents that a node holds into their sets.
func (v *Virtual) fillSets(t *virtualTail, f *flight, at time.Time) {
	node := int(f.via.epoch) - 1
	for i := range f.extents {
		if f.unknown&(1<<i) == 0 {
			continue
		}
		e := f.spans[i].extent
		end, second := v.site.world.Holds(node, t.shard, e, at)
		in := 0
		if second {
			in = 1
		}
		for j := range f.sets[i] {
			switch {
			case f.sets[i][j] == nil:
			case end > 0 && j == in:
				f.sets[i][j] = v.set(i, f.hash, e)
			default:
				f.sets[i][j] = v.site.empty[:]
			}
		}
	}
}

// set returns a set that holds one identity.
func (v *Virtual) set(i int, key layout.Hash, number uint64) []byte {
	s := v.site.sets[i][:]
	for j, w := range (layout.Identity{Key: key, Number: number, Generation: 1}).Words() {
		binary.LittleEndian.PutUint64(s[8*j:], w)
	}
	return s
}
