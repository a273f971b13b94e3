package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// maxSpans is the most extents in one flight: 512 KiB.
const maxSpans = 8

// published is a length with the CRC that proves its tail chunk.
type published struct {
	length  uint64
	tailCRC uint32
	sealed  bool
}

// span is a run of bytes inside one extent.
type span struct {
	place
	from, to uint64   // wanted bytes
	start    uint64   // first byte read: below from when the prefix had to be read too
	data     []byte   // [start, to)
	sums     []uint32 // of its first chunks, if there are any: then start is on a border
	whole    int      // chunks from start on that descriptors prove, the others are the length's own CRC's
	descs    []byte   // of those
}

// order is what a flight is to read.
type order struct {
	via      *path
	partial  bool // via's node is a partial replica
	hash     layout.Hash
	pub      published
	from, to uint64        // wanted bytes, at most maxSpans extents of them; to is on a chunk border or the length
	pre      prefix        // at from
	timeout  time.Duration // of each of its batches
	// alone: nobody does anything else until the flight has landed.
	alone bool
	// hot: it was copied from what a watch has brought.
	hot bool
}

// cost is what the order takes of its device's budget.
func (o *order) cost() int64 { return int64(o.to - o.from) }

// flight is one order on its way, or landed: its spans are verified and delivered
// one after the other. First the places that are not known are read, then the data.
// Its bytes live until release. One goroutine at a time.
type flight struct {
	order
	spans [maxSpans]span
	n     int // spans
	next  int // span to deliver next

	extents int                 // of the order, at spans[0].place and on
	unknown uint8               // bit i: the place of extent i is not known
	sets    [maxSpans][2][]byte // its candidate sets, on their way: the first, the second, or both
	located int                 // sets that were read

	b     batch
	of    *path // whose b is
	size  int   // of b
	state flightState
	err   error // why it ended

	payer *budget // nil: not bounded
	paid  int64   // by payer, until the flight has landed or failed

	copies   uint      // that were timed, or might have been
	posted   time.Time // when what is on its way was
	deadline time.Time // of what is on its way
}

type flightState int

const (
	flightEmpty    flightState = iota
	flightDeferred             // an order, not begun
	flightLocating
	flightPosted
	flightLanded
)

const (
	smallFlight  = 16 << 10 // the smallest batch: what a steady tail needs
	littleFlight = smallFlight - flightSlack
	// flightSlack is what a flight may need beside the wanted bytes: the prefix of
	// the first chunk, and descriptors. The places that are read before need less
	// than the smallest batch.
	flightSlack = layout.ChunkSize + maxSpans*(layout.DescriptorsSize+8)
)

// Does not compile when the places do not fit.
const _ = uint(smallFlight - maxSpans*2*layout.SetSize)

// cut moves the end of a flight from a position to where its last chunk can be
// proven: only the length itself proves a partial one.
func cut(from, to, length uint64) uint64 {
	if to < length {
		to = max(to&^(layout.ChunkSize-1), from&^(layout.ChunkSize-1)+layout.ChunkSize)
	}
	return min(to, length)
}

// start begins to carry out an order. After an error nothing is on its way.
func (f *flight) start(o order, known *places) error {
	f.order, f.n, f.next, f.extents, f.unknown, f.located, f.err = o, 0, 0, 0, 0, 0, nil
	err := f.room(int(o.to - o.from))
	if err == nil {
		err = f.locate(known)
	}
	if err != nil {
		f.end(err)
	}
	return err
}

// locate posts what is to be read first: the places, or, if all are known, the data.
func (f *flight) locate(known *places) error {
	o := &f.order
	g := o.via.geometry
	for e := layout.Extent(o.from); e <= layout.Extent(o.to-1); e++ {
		i := f.extents
		k, ok := known.find(o.via.epoch, e)
		if !ok {
			k = place{extent: e}
			n := 1
			if !o.via.mostlyFirst() {
				n = 2
			}
			sets := g.ExtentSetsOf(o.hash, e)
			for j := range n {
				f.sets[i][j] = f.b.Add(g.ExtentSet(sets[j]), layout.SetSize)
			}
			if f.sets[i][n-1] == nil {
				break // the batch is full: fewer extents this time
			}
			f.unknown |= 1 << i
			f.located += n
		}
		f.spans[i].place = k
		f.extents++
	}
	switch {
	case f.extents == 0:
		return errBatchRoom
	case f.unknown == 0:
		return f.lay()
	}
	f.state = flightLocating
	return f.post()
}

// lay lays the reads of the located extents into the batch and posts them.
func (f *flight) lay() error {
	f.to = min(f.to, (f.spans[0].extent+uint64(f.extents))*layout.ExtentSize)
	tail, _ := layout.Tail(f.pub.length)
	g, from := f.via.geometry, f.from
	for i := range f.extents {
		s := &f.spans[i]
		s.from, s.to, s.start = from, min(f.to, (s.extent+1)*layout.ExtentSize), from
		if !f.pre.known && i == 0 { // later spans begin on a border
			s.start = from &^ (layout.ChunkSize - 1)
		}
		f.add(s, g.ExtentSlot(s.index)+(s.start-s.extent*layout.ExtentSize))
		s.descs = nil
		if s.whole = wholeChunks(s.start, s.to, tail); s.whole > 0 {
			first := layout.Chunk(s.start) % layout.ChunksPerExtent
			s.descs = f.b.Add(g.Descriptors(s.index)+first*layout.DescriptorSize, s.whole*layout.DescriptorSize)
		}
		if s.data == nil || s.whole > 0 && s.descs == nil {
			break // the batch is full: fewer spans this time
		}
		f.n++
		from = s.to
	}
	f.to = from
	if f.n == 0 {
		return errBatchRoom
	}
	f.state = flightPosted
	return f.post()
}

// add plans the read of a span's data at an offset.
func (f *flight) add(s *span, offset uint64) {
	n := int(s.to - s.start)
	if b, ok := f.b.(summer); ok && s.start%layout.ChunkSize == 0 {
		s.data, s.sums = b.AddSums(offset, n)
		return
	}
	s.data, s.sums = f.b.Add(offset, n), nil
}

// wholeChunks is how many chunks of [start, to), in one extent, are proven by their
// descriptors: all but the tail.
func wholeChunks(start, to, tail uint64) int {
	first, last := layout.Chunk(start), layout.Chunk(to-1)
	if last == tail {
		return int(last - first)
	}
	return int(last - first + 1)
}

// batchSize is the memory of a batch for n wanted bytes: a power of two, as the
// transports take no less.
func batchSize(n int) int {
	size := smallFlight
	for size < n+flightSlack {
		size *= 2
	}
	return size
}

// room makes sure that the flight has an empty batch of its path for n bytes.
func (f *flight) room(n int) error {
	size := batchSize(n)
	if f.b != nil && f.of == f.via && f.size >= size && f.state == flightLanded {
		f.b.Reset()
		return nil
	}
	f.drop()
	b, err := f.via.newBatch(size)
	if err != nil {
		return err
	}
	f.b, f.of, f.size = b, f.via, size
	return nil
}

func (f *flight) post() error {
	f.posted = f.via.now()
	f.deadline = f.posted.Add(f.timeout)
	if s, ok := f.b.(spinner); ok && f.alone {
		return s.PostSpin(f.deadline)
	}
	return f.b.Post(f.deadline)
}

// await waits until the flight has landed, or until a time before the deadline of
// what is on its way. It may be called again, also when it has landed or failed.
func (f *flight) await(until time.Time) (landed bool, err error) {
	since := f.posted
	if !f.alone {
		since = time.Now()
	}
	for f.state != flightLanded && f.err == nil {
		settled, err := f.b.Await(until)
		if !settled && err == nil {
			return false, nil
		}
		if err == nil {
			err = f.settled(since)
		}
		if err != nil {
			f.end(err)
		}
	}
	return true, f.err
}

// awaitFor waits until the flight has landed, or what was posted last has been on its
// way for d.
func (f *flight) awaitFor(d time.Duration) (landed bool, err error) {
	for {
		posted := f.posted
		landed, err = f.await(posted.Add(d))
		if landed || f.posted == posted {
			return landed, err
		}
	}
}

// finish waits until the flight has landed or failed.
func (f *flight) finish() error {
	for {
		if landed, err := f.await(f.deadline); landed {
			return err
		}
	}
}

// settled goes on with what is next when a batch has settled that was waited for
// since a time.
func (f *flight) settled(since time.Time) error {
	if f.state == flightPosted {
		f.timed(int(f.to-f.from), since)
		f.land()
		return nil
	}
	f.timed(0, since)
	if f.found(); f.unknown != 0 {
		return f.locateAgain()
	}
	if f.extents == 0 {
		f.to = f.from
		f.land()
		return nil
	}
	f.b.Reset()
	return f.lay()
}

// found takes the places that have come. What remains unknown may be in its second set.
func (f *flight) found() {
	var second uint8
	for i := range f.extents {
		if f.unknown&(1<<i) == 0 {
			continue
		}
		k, set, ok := findPlace(f.via.geometry, f.hash, f.spans[i].extent, f.sets[i])
		switch {
		case ok:
			f.spans[i].place = k
			f.via.foundIn(set)
			continue
		case f.sets[i][0] != nil && f.sets[i][1] == nil:
			second |= 1 << i
			continue
		}
		f.extents = i // the first that the node lacks ends the flight
		break
	}
	f.unknown = second & (1<<f.extents - 1)
	f.sets = [maxSpans][2][]byte{}
}

// locateAgain reads the second sets of the extents that were not in their first ones.
func (f *flight) locateAgain() error {
	f.b.Reset()
	g := f.via.geometry
	for i := range f.extents {
		if f.unknown&(1<<i) == 0 {
			continue
		}
		set := g.ExtentSetsOf(f.hash, f.spans[i].extent)[1]
		if f.sets[i][1] = f.b.Add(g.ExtentSet(set), layout.SetSize); f.sets[i][1] == nil {
			return errBatchRoom
		}
		f.located++
	}
	return f.post()
}

// timed notes how long the path took for so many bytes. A copy of shared memory is
// never waited for, and looking at the clock costs as much as some of them: one of
// shmTimed is counted.
func (f *flight) timed(size int, since time.Time) {
	switch f.copies++; {
	case f.via.source != FromSHM:
		f.via.took(f.via.now(), size, f.posted, latest(since, f.posted))
	case f.copies%shmTimed == 0 && f.via.times != nil:
		f.via.times.Add(time.Since(f.posted))
	}
}

// shmTimed is of how many copies of shared memory the time of one is taken.
const shmTimed = 64

// end gives up after an error.
func (f *flight) end(err error) {
	f.release()
	f.err = err
}

func (f *flight) land() {
	f.state = flightLanded
	f.repay()
}

// pay notes that the flight has n bytes of a budget.
func (f *flight) pay(b *budget, n int64) { f.payer, f.paid = b, n }

// repay gives them back.
func (f *flight) repay() {
	if f.payer != nil {
		f.payer.give(f.paid)
	}
	f.payer, f.paid = nil, 0
}

// release gives the batch back; the spans die. A batch with reads still on
// their way is recycled by its connection when they have settled.
func (f *flight) release() {
	f.drop()
	f.repay()
}

func (f *flight) drop() {
	if f.b != nil {
		f.b.Release()
	}
	f.b, f.of, f.size, f.n, f.next, f.state = nil, nil, 0, 0, 0, flightEmpty
}
