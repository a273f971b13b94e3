package server

import (
	"io"
	"os"

	"github.com/rmatail/rmatail/rdma"
)

// parts are what a node is made of besides its own code; tests replace them.
type parts struct {
	export func(cfg rdma.Config, mem []byte) (export, error)
	// socket hands out the arena's memory file at a Unix socket.
	socket func(path string, f *os.File, size, epoch uint64) (io.Closer, error)
}

func realParts() parts {
	return parts{
		export: newRDMAExport,
		socket: func(string, *os.File, uint64, uint64) (io.Closer, error) { return nil, os.ErrInvalid },
	}
}
