package reader

// reason is why a read did not deliver. It is a metric label: few and fixed.
type reason int

const (
	// reasonTorn: the bytes do not fit their CRC; read while they were written.
	reasonTorn reason = iota
	// reasonMoved: the slot now belongs to another extent, or another generation.
	reasonMoved
	// reasonHole: the cache does not hold the extent (evicted, or jumped over).
	reasonHole
	// reasonShort: the chunk holds less than the published length promises.
	reasonShort
	// reasonStale: a shard entry that is older than one already seen.
	reasonStale
	// reasonEntry: a shard entry that fails its check, or is that of another shard.
	reasonEntry
	// reasonDeadline: no answer in time.
	reasonDeadline
	// reasonTransport: the connection failed.
	reasonTransport
	// reasonBuffers: no memory was left to read into (see rdma.Config.BufferBytes).
	reasonBuffers
	// reasonBudget: the byte budget of the network device was used up for too long
	// (see Config.BytesInFlight).
	reasonBudget
	reasons int = iota
)

func (r reason) String() string {
	return [...]string{"torn", "moved", "hole", "short", "stale", "entry", "deadline", "transport", "buffers", "budget"}[r]
}
