package tcp

import "errors"

var (
	// ErrNoBuffers is returned by NewBatch when Options.BufferBytes are in use: release batches first.
	ErrNoBuffers = errors.New("no batch memory left")
	// ErrBatchSize is returned by NewBatch for a size that no batch can have.
	ErrBatchSize = errors.New("batch size out of range")
	// ErrState is returned by Post when nothing is planned or the batch was posted already, and by Wait when it was not.
	ErrState = errors.New("batch in the wrong state")
	// ErrClosed is the cause after Close.
	ErrClosed = errors.New("tcp path closed")
)
