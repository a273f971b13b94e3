//go:build !linux

package wire

const taps = false

func (t *tap) get(uintptr) bool { return true }
