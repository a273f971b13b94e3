//go:build !unix

package rdma

import (
	"os"
	"syscall"
)

// There are no verbs where these are used: opening a device fails first.

func mapMemory(size int) ([]byte, error) { return nil, ErrUnsupported }

func unmapMemory(mem []byte) error { return ErrUnsupported }

func memlockLimit() uint64 { return ^uint64(0) }

func pollable(fd int, name string) (*os.File, syscall.RawConn, error) {
	return nil, nil, ErrUnsupported
}
