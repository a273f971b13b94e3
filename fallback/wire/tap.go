package wire

import (
	"net"
	"runtime"
	"syscall"
	"time"
)

// tap is the reading side of a connection. A read that finds nothing tries again for a
// moment before it sleeps, where that has been worth while: between two processes of a host,
// and in the middle of a large reply, bytes are nearer than a sleep and a wake-up take.
// Only the leader uses it.
type tap struct {
	conn net.Conn
	raw  syscall.RawConn              // nil: conn is no plain socket, or nothing can run meanwhile
	try  func(fd uintptr) (done bool) // t.attempt; a field, as a method value would be made anew each time

	into []byte
	n    int
	err  error

	began time.Time     // when this read found nothing; zero: it has not
	usual time.Duration // moving average of how long that takes
	slept uint          // reads in a row that went to sleep at once
	until uint          // how many of them there are to be before one tries again all the same
}

const (
	// tapSpin is the longest that a read tries again.
	tapSpin = 50 * time.Microsecond
	// One of tapProbe reads in a row that would go to sleep at once tries again all the same, as
	// one that sleeps looks slower than it was; while that is in vain, one of ever more, up
	// to tapProbeMost.
	tapProbe     = 32
	tapProbeMost = 2048
)

func newTap(conn net.Conn) *tap {
	t := &tap{conn: conn}
	if sc, ok := conn.(syscall.Conn); ok && taps && runtime.GOMAXPROCS(0) > 1 {
		if raw, err := sc.SyscallConn(); err == nil {
			t.raw, t.try = raw, t.attempt
		}
	}
	return t
}

// Read is that of the connection.
func (t *tap) Read(p []byte) (int, error) {
	if t.raw == nil || len(p) == 0 {
		return t.conn.Read(p)
	}
	t.into, t.n, t.err, t.began = p, 0, nil, time.Time{}
	err := t.raw.Read(t.try)
	t.into = nil
	if err != nil {
		return 0, err
	}
	return t.n, t.err
}

// attempt reports whether the read is over.
func (t *tap) attempt(fd uintptr) (done bool) {
	done = t.get(fd)
	switch {
	case !t.began.IsZero(): // it has slept
		if done {
			t.took(time.Since(t.began))
		}
		return done
	case done:
		return true
	}
	t.began = time.Now()
	for d, most := time.Duration(0), t.budget(); d < most; {
		done = t.get(fd)
		if d = time.Since(t.began); done {
			t.took(d)
			return true
		}
	}
	return false
}

// budget returns how long a read tries again.
func (t *tap) budget() time.Duration {
	if t.usual <= tapSpin {
		t.until = tapProbe
		return min(2*t.usual+time.Microsecond, tapSpin)
	}
	if t.slept++; t.slept < t.until {
		return 0
	}
	t.slept, t.until = 0, min(2*t.until, tapProbeMost)
	return tapSpin
}

// took takes how long a read has waited. A long one counts as slow, and not as long.
func (t *tap) took(d time.Duration) { t.usual += (min(d, 4*tapSpin) - t.usual) / 8 }
