package server

import (
	"errors"
	"fmt"
)

// closers undo a start: last in, first out, each once.
type closers struct{ list []closer }

type closer struct {
	what  string
	close func() error
}

func (cs *closers) add(what string, close func() error) {
	cs.list = append(cs.list, closer{what, close})
}

// close closes everything, and joins what went wrong.
func (cs *closers) close() error {
	var errs []error
	for len(cs.list) > 0 {
		c := cs.list[len(cs.list)-1]
		cs.list = cs.list[:len(cs.list)-1]
		if err := c.close(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.what, err))
		}
	}
	return errors.Join(errs...)
}
