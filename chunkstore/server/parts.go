package server

import (
	"io"
	"os"

	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
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
		socket: func(path string, f *os.File, size, epoch uint64) (io.Closer, error) {
			s, err := local.Listen(path, f, size, epoch)
			if err != nil {
				return nil, err // not a nil *local.Server in an io.Closer
			}
			return s, nil
		},
	}
}
