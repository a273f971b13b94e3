package plan

const (
	// FramePayload is of a packet at RoCE MTU 4096, FrameOverhead what goes over the wire
	// beside it: preamble and gap, Ethernet, IPv4, UDP, BTH, AETH, CRCs.
	FramePayload  = 4096
	FrameOverhead = 94
)

// Wire is what so many reads that answer so many bytes put on a node's link.
func Wire(reads, bytes float64) float64 { return bytes + FrameOverhead*(bytes/FramePayload+reads) }

// Service is how many seconds a node's card has to do with them: the longer of what the
// link and what the card's rate of reads take.
func Service(reads, bytes, linkGbps, readsPerSecond float64) float64 {
	return max(Wire(reads, bytes)*8/(linkGbps*1e9), reads/readsPerSecond)
}
