package fanout

import "errors"

var (
	// ErrConfig is returned when a setting is out of bounds.
	ErrConfig = errors.New("fan-out benchmark")
	// errAbsent is returned when a program is not on this machine.
	errAbsent = errors.New("not on this machine")
	// errOrder is returned when a consumer gets a record that is not the next one.
	errOrder = errors.New("record out of order")
	// errPeer is returned when a peer answers what it should not.
	errPeer = errors.New("unexpected answer")
)
