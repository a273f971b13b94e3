//go:build !linux

package wire

func runChild() bool { return false }
