// Package layout is the only owner of the bytes that a consumer may read from a
// node's arena: where they are, what they mean, what proves them. It is pure
// (bytes in, values out), so that the node that writes and the consumer that
// reads over a NIC share one definition and nothing else.
//
// # Arena
//
// All integers are little-endian. An arena is one memory object:
//
//	0                 header                    4,096 B
//	PageIdents        page identities           PageSets   x 16 x    32 B, padded to 4,096
//	PageSlots         length pages              PageSets   x 16 x 4,096 B
//	ExtentIdents      extent identities         ExtentSets x 16 x    32 B, padded to 4,096
//	ExtentDescs       extent descriptors        ExtentSets x 16 x   128 B, padded to 4,096
//	ExtentSlots       extent slots              ExtentSets x 16 x 65,536 B
//
// Both tables (length pages and extents) are set-associative: a key has two
// candidate sets of 16 ways, and lives in at most one way of them. An index is
// set*16 + way, and is the same in the identity, descriptor and slot arrays.
// There are no pointers in remote memory, only identities. The memory object may
// be longer than its arena: what is behind it is no part of the format (whole huge
// pages, and the word by which package rdma/local tells a host's consumers of news).
//
// # Header
//
//	0     8  magic "RMATAIL\x01"
//	8     4  layout version (1)
//	12    4  chunk size (4096)
//	16    4  chunks per extent (16)
//	20    4  ways per set (16)
//	24    4  page sets
//	28    4  extent sets
//	32    8  node epoch: random, drawn at each start, never zero
//	40    8  arena size in bytes
//	48 4044  zero
//	4092  4  CRC32C of bytes 0..4092
//
// # Identity (32 B): which key a way holds
//
//	0    16  key hash: shard hash (extents) or stream hash (length pages)
//	16    8  number: extent number, or page number (48 bits used)
//	24    4  generation: never has a zero tag; changes with each reuse of the way
//	28    4  CRC32C of bytes 0..28, zero replaced by one
//
// The last 8 bytes are one word, stored last and atomically. Zero there means
// that the way is empty: invalidation is that one store.
//
// # Descriptor (8 B, one for each chunk of the extent): what a chunk holds
//
//	bits  0..31  CRC32C of the chunk's valid prefix, seeded with its identity
//	bits 32..44  valid length, 1..4096 (0: nothing here)
//	bits 45..63  tag: the low 19 bits of the identity's generation, never zero
//
// One aligned 8-byte word, stored atomically after the data it covers.
//
// # Shard entry (32 B, 128 in a length page): how far a shard is published
//
//	0     8  length word: the published end position
//	8     4  tail CRC: CRC of the published prefix of the tail chunk
//	12    4  check: CRC32C of shard hash, and of this entry without the check
//	16    6  heartbeat: producer's wall clock in ms, for "idle or broken" only
//	22    2  flags: bit 0 sealed
//	24    8  incarnation of the shard (0: no entry)
//
// The tail chunk of a length is the chunk that holds byte length-1. The check
// binds the entry to (stream, shard, incarnation) through the hash, and shows an
// entry that was read half old, half new: such an entry is read again.
//
// A node updates an entry in place, word by word: heartbeat and flags, length,
// then tail CRC and check. When the incarnation changes it is zeroed first and
// stored last. A node that is stopped between two of these stores leaves an entry
// that does not check until it goes on: to a reader the same as no answer.
//
// # What a CRC proves
//
// Every chunk CRC is CRC32C over (shard hash, chunk number) and then the bytes.
// It hence fails for torn bytes, and for perfectly consistent bytes of another
// chunk; the same bytes have the same CRC on each replica; and since published
// bytes never change under one identity, a CRC of a prefix can be continued: a
// reader fetches only new bytes and extends the CRC that it holds.
//
// # Order
//
// A node writes data, then the descriptor, then (after the quorum) the entry. A
// way that is reused is first made empty, its descriptors or entries zeroed, then
// written under another generation: who remembers where a key was finds nothing
// there, and looks for it again. Readers rely on no order inside or between the
// READs of a batch (IBA gives none inside one READ, and PCIe none between two);
// they rely on aligned 8-byte words being whole, on the CRC, and on the length
// having been read before its data was asked for.
package layout

// Sizes in bytes, and counts, of layout version 1. They are part of the format.
const (
	Version         = 1
	HeaderSize      = 4096
	ChunkSize       = 4096
	ChunksPerExtent = 16
	ExtentSize      = 65536
	Ways            = 16
	IdentitySize    = 32
	SetSize         = 512
	DescriptorSize  = 8
	DescriptorsSize = 128
	PageSize        = 4096
	EntrySize       = 32
	EntriesPerPage  = 128
)

// The literals above are checked against each other at compile time: a negative
// array length does not compile.
var (
	_ [ExtentSize - ChunkSize*ChunksPerExtent]struct{}
	_ [ChunkSize*ChunksPerExtent - ExtentSize]struct{}
	_ [SetSize - Ways*IdentitySize]struct{}
	_ [Ways*IdentitySize - SetSize]struct{}
	_ [DescriptorsSize - DescriptorSize*ChunksPerExtent]struct{}
	_ [DescriptorSize*ChunksPerExtent - DescriptorsSize]struct{}
	_ [PageSize - EntrySize*EntriesPerPage]struct{}
	_ [EntrySize*EntriesPerPage - PageSize]struct{}
)
