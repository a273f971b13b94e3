package layout

import "cmp"

// Put is a piece of one chunk on its way to a node: the whole chunk, or a delta
// that continues the prefix which the node holds.
type Put struct {
	Shard Hash
	// Incarnation is that of which Shard is the hash, for nodes that want to know
	// whose puts they take; 0: not said. It is not checked by an arena.
	Incarnation uint64
	Chunk       uint64
	// From is where in the chunk Data begins, 0 to ChunkSize-1. From 0 can always
	// be taken; any other needs the prefix [0, From) on the node.
	From int
	// CRC is that of the whole prefix [0, From+len(Data)), seeded with SeedCRC: by
	// it a node checks that it holds the same prefix as the writer means.
	CRC  uint32
	Data []byte
	// Whole are the bytes [0, From+len(Data)) of the chunk, which Data ends, for a
	// node that lacks the prefix. nil: nobody has them at hand.
	Whole []byte
}

// FromStart returns the put that begins at the chunk's start, for a node that
// lacks the prefix. ok is false if that is the same, or Whole is not at hand.
func (p Put) FromStart() (whole Put, ok bool) {
	if p.From == 0 || p.Whole == nil {
		return p, false
	}
	p.From, p.Data = 0, p.Whole
	return p, true
}

// Ballot names one writer of a shard among all that have been: a node that holds
// one refuses publications under a smaller one. The zero Ballot is that of a
// writer without a lease.
type Ballot struct {
	Sequence uint64 // 0 only in the zero Ballot
	Nonce    uint64 // random: tells writers apart that have chosen the same sequence
}

// Compare orders ballots by sequence, then nonce: -1, 0 or 1.
func (b Ballot) Compare(c Ballot) int {
	return cmp.Or(cmp.Compare(b.Sequence, c.Sequence), cmp.Compare(b.Nonce, c.Nonce))
}

// Publication moves a shard's published end.
type Publication struct {
	Shard  Shard
	Entry  Entry
	Ballot Ballot // the writer's
}
