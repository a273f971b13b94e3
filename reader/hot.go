package reader

import (
	"errors"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// hint is what a page with one shard knows of that, for its next bytes to be read along
// with its length: as many as came last time. What else comes is read as always. Of the
// poller.
type hint struct {
	size   uint64 // bytes to read; 0: none
	last   uint64 // how many came last
	epoch  uint64 // of the node that has the extent at place
	place  place
	placed bool
}

// hotMost is the most bytes that are read along. Of more, a read of their own costs
// little.
const hotMost = 16 << 10

// grew takes that the shard has got n more bytes. Of sizes that vary the larger of the
// last two is read.
func (h *hint) grew(n uint64) {
	h.size = max(n, h.last)
	h.last = n
	if h.size > hotMost {
		h.size = 0
	}
}

// along is what is read along with a length: the bytes after the length that is known,
// and, if it is not known where the node has them, that place: then the node looks the
// bytes up, if it does that. (Who begins an extent with every sixteenth record would wait
// for two answers each time, and all consumers of a shard at the same time.)
type along struct {
	f        *follow // nil: nothing
	via      *path
	from, to uint64
	place    place
	placed   bool
	data     []byte    // [from, to)
	descs    []byte    // the extent's descriptors, if a chunk ends within
	sets     [2][]byte // of identities, if it is not placed
}

// along plans it.
func (h *hint) along(ro *roster, v *visit, shards []*follow) (a along) {
	if h.size == 0 || len(shards) != 1 {
		return a
	}
	f := shards[0]
	if f.takeCold() {
		h.placed = false
	}
	from := f.published().length
	extent := layout.Extent(from)
	node := -1
	for i, p := range ro.peers {
		if p == v.peer {
			node = i
		}
	}
	if node < 0 || !ro.holds(uint16(node), f.hash, extent) {
		return a
	}
	a = along{f: f, via: v.via, from: from, to: min(from+h.size, (extent+1)*layout.ExtentSize)}
	if a.placed = h.placed && h.epoch == v.via.epoch && h.place.extent == extent; a.placed {
		a.place = h.place
	} else {
		a.place.extent = extent
	}
	return a
}

// room is what it may take of a batch.
func (a *along) room() int {
	switch {
	case a.f == nil:
		return 0
	case a.placed:
		return int(a.to-a.from) + layout.DescriptorsSize + 16
	}
	return 2*layout.SetSize + int(a.to-a.from) + 24
}

// add plans its reads.
func (a *along) add(v *visit) bool {
	g := v.via.geometry
	switch {
	case a.f == nil:
		return true
	case !a.placed:
		ok := true
		for j, set := range g.ExtentSetsOf(a.f.hash, a.place.extent) {
			a.sets[j] = v.b.Add(g.ExtentSet(set), layout.SetSize)
			ok = ok && a.sets[j] != nil
		}
		if w, can := v.b.(waker); ok && can && w.Extents() && layout.Chunk(a.from) == layout.Chunk(a.to-1) {
			a.data = w.AddExtent(a.f.hash, a.place.extent, int(a.from-a.place.extent*layout.ExtentSize), int(a.to-a.from))
			ok = a.data != nil
		}
		return ok
	}
	a.data = v.b.Add(g.ExtentSlot(a.place.index)+a.from-a.place.extent*layout.ExtentSize, int(a.to-a.from))
	if layout.Chunk(a.from) != layout.Chunk(a.to-1) {
		if a.descs = v.b.Add(g.Descriptors(a.place.index), layout.DescriptorsSize); a.descs == nil {
			return false
		}
	}
	return a.data != nil
}

// bring hands what has come to the shard's Readers, before they are told of e, the
// entry that has come with it.
func (a *along) bring(h *hint, e layout.Entry) {
	f := a.f
	if f == nil || e.Length <= a.from || e.Incarnation != f.key.incarnation || !e.Valid(f.hash) {
		return
	}
	if !a.placed {
		if h.place, _, h.placed = findPlace(a.via.geometry, f.hash, a.place.extent, a.sets); !h.placed {
			return
		}
		h.place.fresh = false
		h.epoch = a.via.epoch
		a.place = h.place
	}
	to := min(a.to, e.Length)
	if a.data == nil || cut(a.from, to, e.Length) != to { // or its last chunk cannot be proven
		if !a.placed {
			f.hand(func(hot *hot) {
				hot.from, hot.to = 0, 0
				hot.via, hot.place = a.via, h.place
			})
		}
		return
	}
	f.hand(func(hot *hot) {
		*hot = newHot(hot, a, e, to)
	})
}

// hot is what was read along with a length, for all Readers of the shard: bytes, or only
// where they are. Nothing of it is proven.
type hot struct {
	via      *path // nil: nothing
	place    place
	pub      published // of the entry that came with it
	from, to uint64    // of data; equal: only the place
	data     []byte
	descs    []byte
}

func newHot(old *hot, a *along, e layout.Entry, to uint64) hot {
	n := hot{via: a.via, place: a.place, from: a.from, to: to, data: append(old.data[:0], a.data[:to-a.from]...), descs: old.descs[:0],
		pub: published{e.Length, e.TailCRC, e.Flags&layout.FlagSealed != 0}}
	n.descs = append(n.descs, a.descs...)
	return n
}

// hand has f change what is handed to Readers.
func (f *follow) hand(change func(*hot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.mu.hot)
}

// chill takes that what was handed out was not right: it is forgotten, and where it came
// from too.
func (f *follow) chill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hot.via, f.mu.cold = nil, true
}

// takeCold reports whether something handed out was not right, once.
func (f *follow) takeCold() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	cold := f.mu.cold
	f.mu.cold = false
	return cold
}

// handed makes what a watch has brought the current flight, landed, if it has the bytes
// at the position and can be proven. What is not, it takes the place from.
func (r *Reader) handed(a action) bool {
	if r.flying > 0 || r.tail.rate > 0 || !r.prefix.known {
		return false
	}
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	h := &r.f.mu.hot
	switch {
	case h.via == nil || !h.via.up(time.Now()):
		return false
	case a.from < h.from || a.from >= h.to:
		if h.place.extent == layout.Extent(a.from) {
			r.places.add(h.via.epoch, h.place)
		}
		return false
	}
	if r.cur == nil {
		r.cur = r.c.hangar.take()
	}
	if r.cur.copy(h, r.h, a.from, r.prefix) != nil {
		return false
	}
	if k := h.place; k.extent == layout.Extent(a.from) {
		r.places.add(h.via.epoch, k)
	}
	return true
}

// copy makes the flight one that has landed with what is hot from a position on.
func (f *flight) copy(h *hot, hash layout.Hash, from uint64, pre prefix) error {
	f.order = order{via: h.via, hash: hash, pub: h.pub, from: from, to: h.to, pre: pre}
	f.n, f.next, f.extents, f.unknown, f.located, f.err = 0, 0, 0, 0, 0, nil
	if err := f.room(int(h.to - from)); err != nil {
		return err
	}
	s := &f.spans[0]
	*s = span{place: h.place, from: from, to: h.to, start: from}
	if s.data = f.b.Add(0, int(h.to-from)); s.data == nil {
		return errBatchRoom
	}
	copy(s.data, h.data[from-h.from:])
	tail, _ := layout.Tail(h.pub.length)
	if s.whole = wholeChunks(from, h.to, tail); s.whole > 0 {
		first, n := int(layout.Chunk(from)%layout.ChunksPerExtent)*layout.DescriptorSize, s.whole*layout.DescriptorSize
		if len(h.descs) < first+n {
			return errNotAlong
		}
		if s.descs = f.b.Add(0, n); s.descs == nil {
			return errBatchRoom
		}
		copy(s.descs, h.descs[first:])
	}
	f.n, f.hot = 1, true
	f.land()
	return nil
}

// errNotAlong is returned when what was read along lacks the descriptors of a chunk: it is read again.
var errNotAlong = errors.New("descriptors were not read along")

// alongRead counts what was read along with a length.
func (c *Cluster) alongRead(a *along, p *peer) {
	if !a.placed {
		c.count.located(2)
	}
	if a.data == nil {
		return
	}
	n := 1
	if a.descs != nil {
		n = 2
	}
	c.count.read(a.via.source, n, len(a.data)+len(a.descs))
	p.reads.Add(1)
}
