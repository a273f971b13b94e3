package layout

// Flags of a shard entry.
const (
	// FlagSealed says that the shard has ended: its length will not grow.
	FlagSealed = 1 << 0
)

// Entry is what a length page says of one shard.
type Entry struct {
	Length      uint64 // published end position; bytes below it may be read
	TailCRC     uint32 // CRC of the published prefix of the tail chunk
	Check       uint32 // see Valid
	HeartbeatMS uint64 // producer's wall clock, 48 bits; never compared with another host's clock
	Flags       uint16
	Incarnation uint64 // 0: no entry
}

const heartbeatMask = 1<<48 - 1

// Seal returns the entry with the check that binds it to the shard hash (which
// must be of the same incarnation).
func (e Entry) Seal(h Hash) Entry {
	e.HeartbeatMS &= heartbeatMask
	e.Check = e.check(h)
	return e
}

// Valid reports whether the entry was read whole and is that of the hash.
func (e Entry) Valid(h Hash) bool { return e.Incarnation != 0 && e.Check == e.check(h) }

func (e Entry) check(h Hash) uint32 {
	w := e.Words()
	crc := extendWord(hashCRC(h), w[0])
	crc = extendWord(crc, uint64(e.TailCRC))
	return extendWord(extendWord(crc, w[2]), w[3])
}

// Words returns the entry as its four words, in the order of the format.
func (e Entry) Words() [4]uint64 {
	return [4]uint64{
		e.Length,
		uint64(e.TailCRC) | uint64(e.Check)<<32,
		e.HeartbeatMS&heartbeatMask | uint64(e.Flags)<<48,
		e.Incarnation,
	}
}

// ParseEntry reads the entry at an offset of a copied length page. It proves
// nothing: see Valid. One that the copy does not have is no entry.
func ParseEntry(page []byte, offset int) Entry {
	if offset < 0 || offset > len(page)-EntrySize {
		return Entry{}
	}
	b := page[offset : offset+EntrySize]
	w1, w2 := load64(b[8:]), load64(b[16:])
	return Entry{
		Length: load64(b), TailCRC: uint32(w1), Check: uint32(w1 >> 32),
		HeartbeatMS: w2 & heartbeatMask, Flags: uint16(w2 >> 48), Incarnation: load64(b[24:]),
	}
}
