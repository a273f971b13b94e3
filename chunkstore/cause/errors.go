package cause

import "errors"

// ErrState is returned when a text names no state.
var ErrState = errors.New("no state of a shard has this name")
