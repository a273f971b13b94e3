package demo

// Snapshot is what a consumer process reports, one JSON object a line, about
// every 250 ms and at its end.
type Snapshot struct {
	Position  uint64 `json:"position"` // of the next byte to be delivered
	Lag       uint64 `json:"lag"`      // bytes known to exist behind it
	Delivered uint64 `json:"delivered"`
	Wrong     uint64 `json:"wrong"` // delivered bytes that differ from the durable files
	Gaps      uint64 `json:"gaps"`  // deliveries that do not begin where the last one ended, or bytes out of retention

	Transport   string            `json:"transport"` // memory transport in use
	Why         string            `json:"why"`
	Reads       map[string]uint64 `json:"reads"` // by source
	DeliveredBy map[string]uint64 `json:"delivered_by"`
	Retries     map[string]uint64 `json:"retries"`
	Requests    uint64            `json:"requests"`
	Bytes       uint64            `json:"bytes"` // moved

	Times Histogram `json:"times"` // delivery times of appends
	Done  bool      `json:"done"`  // the last one
	Error string    `json:"error,omitempty"`
}
