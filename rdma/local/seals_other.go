//go:build !linux

package local

import "os"

func mapArena(*os.File, uint64) ([]byte, error) { return nil, ErrUnsupported }

func unmap([]byte) error { return ErrUnsupported }
