package producer

import "fmt"

// Policy says what becomes of a record when the queue is full.
type Policy int

// The policies.
const (
	// Block: Append waits for room, half a queue of it, unless others wait already:
	// then for its turn. Nothing is lost.
	Block Policy = iota
	// DropNewest: the record that comes is dropped, Append returns ErrDropped.
	DropNewest
	// DropOldest: the batch that has waited longest is dropped to make room, up to
	// Config.BatchRecords at once; their Acks resolve with ErrDropped. What is on
	// its way to the sink is never dropped.
	DropOldest
)

// String returns block, drop-newest or drop-oldest.
func (p Policy) String() string {
	switch p {
	case Block:
		return "block"
	case DropNewest:
		return "drop-newest"
	case DropOldest:
		return "drop-oldest"
	}
	return fmt.Sprintf("policy %d", int(p))
}
