package cause

import "fmt"

// State is why delivery of a shard is slow, or that it is not. The zero value is
// Unknown.
type State int

const (
	// Unknown: too little is known to claim anything.
	Unknown State = iota
	// Fine: bytes arrive, or there are none.
	Fine
	// ProducerStopped: nobody writes the shard any more.
	ProducerStopped
	// ProducerSlow: the writer lives, and is behind with what it has.
	ProducerSlow
	// CacheMissing: the cache does not have what it should.
	CacheMissing
	// DurableThrottled: the durable store is what everything waits for.
	DurableThrottled
	// TransportDegraded: reads go another way than the best one, or fail.
	TransportDegraded
	// ConsumerSlow: bytes are there, and the consumer does not take them.
	ConsumerSlow
	states int = iota
)

var _ = [states]struct{}{ConsumerSlow: {}}

// States are all of them, in their order: for tables and metrics.
func States() []State {
	all := make([]State, states)
	for i := range all {
		all[i] = State(i)
	}
	return all
}

// String is the state as it is named in JSON and as the label of metrics.
func (s State) String() string {
	if s < Unknown || int(s) >= states {
		return fmt.Sprintf("state %d", int(s))
	}
	return [...]string{"unknown", "fine", "producer_stopped", "producer_slow", "cache_missing",
		"durable_throttled", "transport_degraded", "consumer_slow"}[s]
}

// Bad reports whether somebody should look.
func (s State) Bad() bool { return s > Fine }

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Errors match ErrState.
func (s *State) UnmarshalText(text []byte) error {
	for _, known := range States() {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("%w: %q", ErrState, text)
}
