package server

import (
	"errors"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Errors of starting a node.
var (
	// ErrConfig is returned when a Config contradicts itself; the text says what
	// to change.
	ErrConfig = errors.New("node configuration")
	// ErrSocket is returned when the Unix socket's path cannot be used.
	ErrSocket = errors.New("shared memory socket")
	// ErrRDMA is returned when RDMA is required and cannot be had.
	ErrRDMA = errors.New("RDMA is required")
)

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("node is closed")

// errClosing refuses requests during Shutdown.
var errClosing = &wire.Error{Status: wire.StatusClosing, Message: "the node is going down; try another one"}
