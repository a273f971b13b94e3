package local

import "errors"

// Errors of the handshake.
var (
	// ErrForeign is returned when what answers at the socket is not a node of the
	// expected epoch, or hands out something else than a sealed arena.
	ErrForeign = errors.New("not the expected arena")
	// ErrInUse is returned when a process listens at the socket path already.
	ErrInUse = errors.New("socket path is in use")
	// ErrUnsupported is returned on systems without sealed memory files.
	ErrUnsupported = errors.New("shared arenas need Linux")
)

// Errors of reading.
var (
	// ErrLost is returned when the node's process has ended: its memory may still
	// be mapped, but nobody writes it any more.
	ErrLost = errors.New("the node's process is gone")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("shared memory connection is closed")
	// ErrNoBuffers is returned when batches hold all the memory that Options allow.
	ErrNoBuffers = errors.New("no batch memory left; release batches or raise the limit")
	// ErrBatch is returned when a batch is used in an order that it does not allow.
	ErrBatch = errors.New("batch used out of turn")
)
