package file

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// Error is one mistake in a file.
type Error struct {
	Path         string
	Line, Column int    // from 1
	Field        string // key path, such as nodes[2].addr (counted from 0); empty: the whole file
	Text         string // what is wrong, and what to write instead
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d", e.Path, e.Line, e.Column)
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Text
}

// Errors are all mistakes of a file, by line. They match cluster.ErrInvalid.
type Errors []*Error

// Error has one line for each mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, m := range e {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Is makes Errors match cluster.ErrInvalid.
func (e Errors) Is(target error) bool { return target == cluster.ErrInvalid }

var (
	// ErrRestart is returned when a changed file says what no running process can
	// take up: another name, another store.
	ErrRestart = errors.New("needs a restart")
	// ErrClosed is returned by Reload after Close.
	ErrClosed = errors.New("cluster file: closed")
)
