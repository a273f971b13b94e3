package durable

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	markName   = "length"
	markMagic  = 0x4d4c6d72 // "rmLM"
	markV1     = 1
	markStride = 512  // one slot a sector, the unit that a disk writes whole
	markSize   = 1024 // the file: two strides, all allocated at creation
	slotSize   = 64
	slotSummed = 56 // bytes covered by the CRC
	markRead   = markStride + slotSize
)

const (
	flagSealed = 1 << iota // no more appends
	flagLazy               // readable bytes may lack a flush
	flagFailed             // a flush failed: what lies past synced is not to be trusted
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// slot is what one write of the mark says. The package comment has the layout.
type slot struct {
	flags       uint16
	seq         uint64
	incarnation uint64
	boot        uint64
	length      uint64
	synced      uint64
	pending     uint32
	pendingCRC  uint32
}

func (s slot) has(flag uint16) bool { return s.flags&flag != 0 }

// put encodes s into b[:slotSize].
func (s slot) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], markMagic)
	le.PutUint16(b[4:], markV1)
	le.PutUint16(b[6:], s.flags)
	le.PutUint64(b[8:], s.seq)
	le.PutUint64(b[16:], s.incarnation)
	le.PutUint64(b[24:], s.boot)
	le.PutUint64(b[32:], s.length)
	le.PutUint64(b[40:], s.synced)
	le.PutUint32(b[48:], s.pending)
	le.PutUint32(b[52:], s.pendingCRC)
	le.PutUint32(b[56:], crc32.Checksum(b[:slotSummed], castagnoli))
	le.PutUint32(b[60:], 0)
}

func parseSlot(b []byte) (slot, bool) {
	le := binary.LittleEndian
	if len(b) < slotSize || le.Uint32(b) != markMagic || le.Uint16(b[4:]) != markV1 ||
		le.Uint32(b[56:]) != crc32.Checksum(b[:slotSummed], castagnoli) {
		return slot{}, false
	}
	s := slot{
		flags:       le.Uint16(b[6:]),
		seq:         le.Uint64(b[8:]),
		incarnation: le.Uint64(b[16:]),
		boot:        le.Uint64(b[24:]),
		length:      le.Uint64(b[32:]),
		synced:      le.Uint64(b[40:]),
		pending:     le.Uint32(b[48:]),
		pendingCRC:  le.Uint32(b[52:]),
	}
	return s, s.synced <= s.length && s.pending <= maxGroup && s.length+uint64(s.pending) >= s.length
}

// parseMark returns the newest whole slot of a mark file's bytes, which may be
// fewer than expected.
func parseMark(b []byte) (slot, bool) {
	first, ok1 := parseSlot(b)
	var second slot
	ok2 := false
	if len(b) >= markRead {
		second, ok2 = parseSlot(b[markStride:])
	}
	if ok2 && (!ok1 || second.seq > first.seq) {
		return second, true
	}
	return first, ok1
}

// readable returns the end of the bytes that a reader in boot may read.
func (s slot) readable(boot uint64) uint64 {
	if s.has(flagFailed) || s.has(flagLazy) && s.boot != boot {
		return s.synced
	}
	return s.length
}
