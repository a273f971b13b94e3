package cluster

import (
	"errors"
	"strings"
)

// ErrInvalid is returned when a Description cannot be a cluster. The error is
// Mistakes.
var ErrInvalid = errors.New("invalid cluster description")

// Mistake is one thing that is wrong with a Description.
type Mistake struct {
	// Field is where the value stands in a cluster file, such as nodes[2].addr
	// (counted from 0), replicas.quorum or nodes.
	Field string
	Text  string // what is wrong, and what to write instead
}

// Mistakes is the error of a Description: all that is wrong with it. It matches
// ErrInvalid.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, k := range m {
		lines[i] = k.Field + ": " + k.Text
	}
	return ErrInvalid.Error() + ": " + strings.Join(lines, "; ")
}

// Is makes Mistakes match ErrInvalid.
func (m Mistakes) Is(target error) bool { return target == ErrInvalid }
