package reader

import (
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/internal/crccopy"
)

// Does not compile unless chunks are blocks.
var _ = [1]struct{}{}[layout.ChunkSize-crccopy.Block]

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
		crc := s.crc(f.hash, after.crc, pos, end)
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

// crc returns the CRC of the prefix of a chunk up to end, of which [pos, end) is in the
// span, and before that what crc is of.
func (s *span) crc(h layout.Hash, crc uint32, pos, end uint64) uint32 {
	if pos%layout.ChunkSize == 0 {
		crc = layout.SeedCRC(h, layout.Chunk(pos))
		if i := int(pos-s.start) / layout.ChunkSize; i < len(s.sums) {
			return crccopy.Join(crc, s.sums[i])
		}
	}
	return layout.ExtendCRC(crc, s.data[pos-s.start:end-s.start])
}

// proven is the reason that is none.
const proven = reason(-1)

// prove compares the CRC of a whole chunk with its descriptor.
func (s *span) prove(chunk uint64, crc uint32) reason {
	d := layout.ParseDescriptor(s.descs, int(chunk-layout.Chunk(s.start)))
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
