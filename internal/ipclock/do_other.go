//go:build !linux

package ipclock

// Do calls f: there is no such capability here.
func Do(f func() error) error { return f() }
