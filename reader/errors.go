package reader

import (
	"errors"
	"fmt"
)

// Errors of opening a Cluster.
var (
	// ErrConfig is returned when a Config contradicts itself.
	ErrConfig = errors.New("reader configuration")
)

// Errors of a Reader. They end it: the next call returns the same.
var (
	// ErrGap is matched by *GapError.
	ErrGap = errors.New("position is out of retention")
	// ErrBeyond is returned when a Reader is opened at a position that the shard
	// has not reached.
	ErrBeyond = errors.New("position is beyond the end of the shard")
	// ErrRecreated is returned when the shard was deleted and made again under its
	// name: positions of the old one mean nothing in the new one.
	ErrRecreated = errors.New("shard was made again under its name; open it anew")
	// ErrClosed is returned after Close of the Reader or of its Cluster.
	ErrClosed = errors.New("reader is closed")
)

// GapError is returned when bytes that were to be delivered next no longer
// exist. What to do (halt, go on at First, go on at the end) is the caller's
// decision: Seek takes it.
type GapError struct {
	Shard  string
	Want   uint64 // the position that was to be delivered next
	First  uint64 // the first position still kept
	Length uint64 // the end of the shard when the gap was found
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%s: position %d is out of retention, the first kept is %d (%d bytes lost); go on with Seek(Earliest) or Seek(Latest)",
		e.Shard, e.Want, e.First, e.First-e.Want)
}

// Is makes errors.Is(err, ErrGap) true.
func (e *GapError) Is(target error) bool { return target == ErrGap }
