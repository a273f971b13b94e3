package server

import (
	"net"
	"os"
	"sync"
	"time"
)

// input is the reading side of a connection below the frame reader. It lets a
// client be idle between frames, but not within one: half a frame must be
// completed in time. One goroutine reads.
type input struct {
	conn  net.Conn
	until time.Time     // no read goes on after it, if set: the handshake's deadline
	idle  time.Duration // between frames; 0: for ever
	frame time.Duration // from the first byte of a frame to its last

	within bool // a part of a frame has been read
	framed bool // the frame's deadline is set, and does not move
	armed  bool // some deadline is set
	mu     struct {
		sync.Mutex
		stopped bool // reads fail from now on
	}
}

// border begins the next frame, of which n bytes have been read already.
func (in *input) border(n int) { in.within, in.framed = n > 0, false }

func (in *input) Read(p []byte) (int, error) {
	if err := in.arm(); err != nil {
		return 0, err
	}
	n, err := in.conn.Read(p)
	in.within = in.within || n > 0
	return n, err
}

// arm sets the deadline of the next read, if it is not that of the last one.
func (in *input) arm() error {
	var deadline time.Time
	switch {
	case !in.until.IsZero():
		deadline = in.until
	case in.within && in.framed:
		return nil
	case in.within:
		in.framed = true
		deadline = time.Now().Add(in.frame)
	case in.idle > 0:
		deadline = time.Now().Add(in.idle)
	case !in.armed:
		return nil
	}
	in.armed = !deadline.IsZero()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.stopped {
		return os.ErrDeadlineExceeded
	}
	return in.conn.SetReadDeadline(deadline)
}

// stop makes the read under way and all later ones fail. Any goroutine.
func (in *input) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.stopped = true
	in.conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection
}

func (in *input) isStopped() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.stopped
}
