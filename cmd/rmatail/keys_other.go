//go:build !linux

package main

import "os"

// singleKeys does nothing here: q counts with the next line, Ctrl-C at once.
func singleKeys(*os.File) (restore func() error, err error) {
	return func() error { return nil }, nil
}
