package read

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// errWrong is returned when bytes that were read do not have their CRC.
var errWrong = errors.New("wrong bytes")

// lane is one reader: it reads one kind in batches over a memory.
type lane struct {
	kind   Kind
	at     *places
	offs   []uint64 // of all reads of the kind
	n      int      // bytes of one
	slots  []slot
	next   int // the slot that settles next
	flying int
	k      int // the next read, in offs
}

// slot is a batch and where its reads land.
type slot struct {
	b     batch
	do    doer // b
	first int  // number of its first read
	reads []landing
}

// landing is a read's bytes and the descriptors of its extent.
type landing struct{ data, descs []byte }

// newLane makes reader i of n, which begin apart so that they do not go in step.
func newLane(m memory, at *places, l cell, inFlight, i, n int) (*lane, error) {
	r := &lane{kind: l.kind, at: at, offs: at.offsets(l.kind), n: l.kind.bytes(), slots: make([]slot, inFlight)}
	r.k = len(r.offs) * i / n
	// Reads begin 8-byte aligned; a chunk may bring its extent's descriptors.
	size := l.batch * ((l.kind.bytes()+7)&^7 + layout.DescriptorsSize)
	for i := range r.slots {
		b, err := m.newBatch(size)
		if err != nil {
			return nil, errors.Join(err, r.drain())
		}
		r.slots[i] = slot{b: b, do: asDoer(b), reads: make([]landing, l.batch)}
	}
	return r, nil
}

func (r *lane) step(deadline time.Time) (int, error) {
	if len(r.slots) == 1 {
		s := &r.slots[0]
		if err := r.plan(s); err != nil {
			return 0, err
		}
		if err := s.do.Do(deadline); err != nil {
			return 0, err
		}
		return len(s.reads), r.verify(s)
	}
	for r.flying < len(r.slots) {
		s := &r.slots[(r.next+r.flying)%len(r.slots)]
		if err := r.plan(s); err != nil {
			return 0, err
		}
		if err := s.b.Post(deadline); err != nil {
			return 0, err
		}
		r.flying++
	}
	s, err := r.settled()
	if err != nil {
		return 0, err
	}
	return len(s.reads), r.verify(s)
}

// settled waits for the oldest batch on its way.
func (r *lane) settled() (*slot, error) {
	s := &r.slots[r.next]
	r.next = (r.next + 1) % len(r.slots)
	r.flying--
	return s, s.b.Wait()
}

func (r *lane) rewind(time.Time) error { return nil }

func (r *lane) drain() error {
	for r.flying > 0 {
		if _, err := r.settled(); err != nil {
			return err
		}
	}
	return nil
}

// release gives the batches back, which a lane needs after drain.
func (r *lane) release() {
	for _, s := range r.slots {
		if s.b != nil {
			s.b.Release()
		}
	}
}

// plan lays the next reads into a batch.
func (r *lane) plan(s *slot) error {
	s.b.Reset()
	s.first = r.k
	if r.kind == Chunk {
		return r.planChunks(s)
	}
	for i := range s.reads {
		if s.reads[i].data = s.b.Add(r.offs[r.k], r.n); s.reads[i].data == nil {
			return fmt.Errorf("%w: a batch of %d reads does not fit", errMissing, len(s.reads))
		}
		r.count()
	}
	return nil
}

func (r *lane) count() {
	if r.k++; r.k == len(r.offs) {
		r.k = 0
	}
}

// planChunks adds the descriptors of an extent once for its run of chunks.
func (r *lane) planChunks(s *slot) error {
	var descs []byte
	for i := range s.reads {
		p := &r.at.chunks[r.k]
		s.reads[i].data = s.b.Add(p.at, layout.ChunkSize)
		if i == 0 || p.chunk%layout.ChunksPerExtent == 0 {
			descs = s.b.Add(p.descs, layout.DescriptorsSize)
		}
		if s.reads[i].descs = descs; s.reads[i].data == nil || descs == nil {
			return fmt.Errorf("%w: a batch of %d chunks does not fit", errMissing, len(s.reads))
		}
		r.count()
	}
	return nil
}

// verify proves what has landed, if the kind does.
func (r *lane) verify(s *slot) error {
	switch r.kind {
	case Chunk:
		for i := range s.reads {
			p := &r.at.chunks[(s.first+i)%len(r.at.chunks)]
			d := layout.ParseDescriptor(s.reads[i].descs, int(p.chunk%layout.ChunksPerExtent))
			crc := layout.ExtendCRC(layout.SeedCRC(p.hash, p.chunk), s.reads[i].data)
			if !d.Of(p.generation) || d.Valid() != layout.ChunkSize || d.CRC() != crc {
				return fmt.Errorf("%w: chunk %d", errWrong, p.chunk)
			}
		}
	case Delta:
		for i := range s.reads {
			p := &r.at.deltas[(s.first+i)%len(r.at.deltas)]
			if layout.ExtendCRC(p.crc, s.reads[i].data) != p.want {
				return fmt.Errorf("%w: end of a partial chunk", errWrong)
			}
		}
	}
	return nil
}
