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

// prefix is the running CRC of the chunk that holds a position, over the bytes
// before that position. It is what lets a Reader fetch only new bytes.
type prefix struct {
	crc   uint32
	known bool
}

// prefixAt returns the prefix at a position if it needs no bytes: on a border.
func prefixAt(h layout.Hash, pos uint64) prefix {
	if pos%layout.ChunkSize != 0 {
		return prefix{}
	}
	return prefix{layout.SeedCRC(h, layout.Chunk(pos)), true}
}

// extend returns the prefix after the bytes data, which begin at pos.
func (p prefix) extend(h layout.Hash, pos uint64, data []byte) prefix {
	if len(data) == 0 {
		return p
	}
	end := pos + uint64(len(data))
	start := end &^ (layout.ChunkSize - 1)
	switch {
	case start > pos:
		return prefix{layout.ExtendCRC(layout.SeedCRC(h, layout.Chunk(end)), data[start-pos:]), true}
	case start == pos:
		return prefix{layout.ExtendCRC(layout.SeedCRC(h, layout.Chunk(end)), data), true}
	case p.known:
		return prefix{layout.ExtendCRC(p.crc, data), true}
	}
	return prefix{}
}

// span is a run of bytes inside one extent.
type span struct {
	place
	from, to uint64 // wanted bytes
	start    uint64 // first byte read: below from when the prefix had to be read too
	data     []byte // [start, to)
	descs    []byte // the extent's descriptors; nil when the length's own CRC proves all
}

// flight is one batch of data reads on its way, or landed: its spans are
// verified and delivered one after the other. Its bytes live until release.
type flight struct {
	via   *path
	hash  layout.Hash
	pub   published
	from  uint64 // first wanted byte
	to    uint64 // end of the last span
	spans [maxSpans]span
	n     int   // spans
	next  int   // span to deliver next
	b     batch // of via
	size  int
	state flightState

	deadline time.Time
}

type flightState int

const (
	flightEmpty flightState = iota
	flightPosted
	flightLanded
)

const (
	smallFlight  = 16 << 10 // the smallest batch: what a steady tail needs
	littleFlight = smallFlight - flightSlack
	// flightSlack is what a flight may need beside the wanted bytes: the prefix of
	// the first chunk, and descriptors.
	flightSlack = layout.ChunkSize + maxSpans*(layout.DescriptorsSize+8)
)

// plan lays the reads of [from, pub.length) into the flight, at most limit
// bytes, over the places of consecutive extents. pre is the prefix at from.
func (f *flight) plan(via *path, h layout.Hash, pub published, from uint64, pre prefix, at []place, limit int, deadline time.Time) error {
	f.hash, f.pub, f.from, f.n, f.next, f.deadline = h, pub, from, 0, 0, deadline
	end := from&^(layout.ExtentSize-1) + uint64(len(at))*layout.ExtentSize
	end = min(end, pub.length)
	if end-from > uint64(limit) { // cut on a chunk border: only the length itself proves a partial chunk
		end = max((from+uint64(limit))&^(layout.ChunkSize-1), from&^(layout.ChunkSize-1)+layout.ChunkSize)
	}
	if err := f.room(via, int(end-from)); err != nil {
		return err
	}
	tail, _ := layout.Tail(pub.length)
	g := via.geometry
	for _, k := range at {
		if from >= end {
			break
		}
		s := span{place: k, from: from, to: min(end, (k.extent+1)*layout.ExtentSize), start: from}
		if !pre.known { // changes nothing for later spans, which begin on a border
			s.start = from &^ (layout.ChunkSize - 1)
		}
		base := k.extent * layout.ExtentSize
		s.data = f.b.Add(g.ExtentSlot(k.index)+(s.start-base), int(s.to-s.start))
		if layout.Chunk(s.start) != tail {
			s.descs = f.b.Add(g.Descriptors(k.index), layout.DescriptorsSize)
		}
		if s.data == nil || layout.Chunk(s.start) != tail && s.descs == nil {
			break // the batch is full: fewer spans this time
		}
		f.spans[f.n] = s
		f.n++
		from = s.to
	}
	f.to = from
	if f.n == 0 {
		return errBatchRoom
	}
	return nil
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

// room makes sure that the flight has an empty batch of the path for n bytes.
func (f *flight) room(via *path, n int) error {
	size := batchSize(n)
	if f.b != nil && f.via == via && f.size >= size && f.state != flightPosted {
		f.b.Reset()
		f.state = flightEmpty
		return nil
	}
	f.release()
	b, err := via.newBatch(size)
	if err != nil {
		return err
	}
	f.b, f.via, f.size = b, via, size
	return nil
}

func (f *flight) post() error {
	if err := f.b.Post(f.deadline); err != nil {
		f.release()
		return err
	}
	f.state = flightPosted
	return nil
}

func (f *flight) land() error {
	if f.state != flightPosted {
		return nil
	}
	if err := f.b.Wait(); err != nil {
		f.release()
		return err
	}
	f.state = flightLanded
	return nil
}

// settle is post and land.
func (f *flight) settle() error {
	if err := settle(f.b, f.deadline); err != nil {
		f.release()
		return err
	}
	f.state = flightLanded
	return nil
}

// release gives the batch back; the spans die. A batch with reads still on
// their way is recycled by its connection when they have settled.
func (f *flight) release() {
	if f.b != nil {
		f.b.Release()
	}
	f.b, f.size, f.n, f.next, f.state = nil, 0, 0, 0, flightEmpty
}

// verify proves the next span, chunk by chunk, and returns its leading bytes
// that are right, with the prefix after them. Nothing is returned that a CRC
// bound to this shard and chunk did not cover. why says what stopped it, and is
// only meaningful when fewer bytes than the span has were proven.
func (f *flight) verify(pre prefix) (data []byte, after prefix, why reason) {
	s := &f.spans[f.next]
	tail, tailValid := layout.Tail(f.pub.length)
	good, pos := s.from, s.start
	after = pre
	for pos < s.to {
		chunk := layout.Chunk(pos)
		end := min((chunk+1)*layout.ChunkSize, s.to)
		crc := after.crc
		if pos%layout.ChunkSize == 0 {
			crc = layout.SeedCRC(f.hash, chunk)
		}
		crc = layout.ExtendCRC(crc, s.data[pos-s.start:end-s.start])
		if chunk == tail {
			if end != chunk*layout.ChunkSize+uint64(tailValid) || crc != f.pub.tailCRC {
				why = reasonTorn
				break
			}
		} else if why = s.prove(chunk, crc); why != proven {
			break
		}
		after = prefix{crc, true}
		pos, good = end, end
	}
	return s.data[s.from-s.start : good-s.start], after, why
}

// proven is the reason that is none.
const proven = reason(-1)

// prove compares the CRC of a whole chunk with its descriptor.
func (s *span) prove(chunk uint64, crc uint32) reason {
	d := layout.ParseDescriptor(s.descs, int(chunk%layout.ChunksPerExtent))
	switch {
	case d.Of(s.generation) && d.Valid() == layout.ChunkSize && d.CRC() == crc:
		return proven
	case d.Of(s.generation) && d.Valid() < layout.ChunkSize:
		return reasonShort
	case d.Of(s.generation):
		return reasonTorn
	case s.fresh && d == 0:
		return reasonHole
	}
	return reasonMoved
}
