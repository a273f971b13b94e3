package trace

import (
	"time"

	"github.com/google/gopacket/layers"
)

// Frame is a captured frame. Data is lent until the next one.
type Frame struct {
	Data   []byte
	Length int // on the wire; more than len(Data) if the capture cut it
	Time   time.Time
	Link   layers.LinkType
}

// Source gives frames in the order of their capture. One goroutine at a time,
// but for Stop.
type Source interface {
	// Next returns the next frame, io.EOF at the end: that of a file, or what had
	// been captured until Stop.
	Next() (Frame, error)
	// Stop makes Next return io.EOF soon. Any goroutine may call it, also twice.
	Stop()
	// Lost is how many frames there was no room for so far.
	Lost() uint64
	Close() error
}
