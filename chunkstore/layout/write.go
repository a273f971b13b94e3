package layout

// Put is a piece of one chunk on its way to a node: the whole chunk, or a delta
// that continues the prefix which the node holds.
type Put struct {
	Shard Hash
	Chunk uint64
	// From is where in the chunk Data begins, 0 to ChunkSize-1. From 0 can always
	// be taken; any other needs the prefix [0, From) on the node.
	From int
	// CRC is that of the whole prefix [0, From+len(Data)), seeded with SeedCRC: by
	// it a node checks that it holds the same prefix as the writer means.
	CRC  uint32
	Data []byte
}

// Publication moves a shard's published end.
type Publication struct {
	Shard Shard
	Entry Entry
}
