package local

import "errors"

// Listening.
var (
	// ErrPath is returned when a socket path is empty, too long for a socket
	// address, or not a file's.
	ErrPath = errors.New("unusable socket path")
	// ErrInUse is returned when another server listens at the path, or something
	// is there that is not a socket.
	ErrInUse = errors.New("socket path is in use")
	// ErrConfig is returned when a setting is out of range.
	ErrConfig = errors.New("bad setting of the memory socket")
)

// Handing over.
var (
	// ErrHandshake is returned when the peer is not an rmatail memory socket, or
	// went away in the midst of the handshake.
	ErrHandshake = errors.New("memory handshake")
	// ErrVersion is returned when the node speaks another version of the handshake.
	ErrVersion = errors.New("unknown version of the memory handshake")
	// ErrEpoch is returned when the node's arena is not the expected one: the node
	// has been restarted, or another one listens at the path.
	ErrEpoch = errors.New("another arena")
	// ErrDenied is returned when the node does not hand its memory to this process.
	ErrDenied = errors.New("memory is not for this process")
	// ErrBusy is returned when the node hands its memory to as many consumers as
	// its limit allows.
	ErrBusy = errors.New("too many consumers of the memory socket")
	// ErrSize is returned when the size of the memory file contradicts the answer.
	ErrSize = errors.New("size of the memory file")
	// ErrUnsealed is returned when the memory file lacks a seal: consumers could
	// crash by reading it, or change it.
	ErrUnsealed = errors.New("memory file is not sealed")
	// ErrUnsupported is returned where memory files cannot be handed over.
	ErrUnsupported = errors.New("shared memory is not supported on this platform")
)

// Reading.
var (
	// ErrLost is returned when the node has gone: its memory is not read again.
	ErrLost = errors.New("node of the mapped memory is gone")
	// ErrClosed is returned when the connection was closed by its owner.
	ErrClosed = errors.New("memory connection closed")
	// ErrNoBuffers is returned when batches that were not released use up
	// Dialer.BufferBytes.
	ErrNoBuffers = errors.New("out of batch memory")
	// ErrBatchSize is returned when a batch of no bytes or over MaxBatchBytes is
	// asked for.
	ErrBatchSize = errors.New("batch size out of range")
	// ErrState is returned when a batch is posted twice or with nothing planned,
	// waited for without a post, or used after Release.
	ErrState = errors.New("batch in the wrong state")
)
