package server

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// door is what a connection passes before anything is spent on it. It takes
// connections at a rate, and leaves the rest to the kernel, whose queue costs no
// processor time and is bounded (listen(2)); of those that it takes, one address has
// at most a share, and what is over that is reset. One goroutine's.
type door struct {
	all, each rate
	taken     bucket
	from      map[string]*bucket
	swept     time.Time // when from was cleared of who is long gone
}

// doorBatch is after how many connections the door rests, if it is at its rate: each
// rest costs a timer.
const doorBatch = 8

// doorSweep is how often addresses that have come to rest are forgotten. Between, at
// most doorSweep's worth of connections is remembered.
const doorSweep = time.Second

func newDoor(l Limits) door {
	return door{
		// At its rate it takes no more than two batches at once: a crowd comes in
		// evenly, between what else there is to do.
		all:  rate{l.Accepts, min(l.Accepts, 2*doorBatch)},
		each: rate{l.AddressAccepts, max(l.AddressAccepts, l.Strangers)},
		from: map[string]*bucket{},
	}
}

// rest is how long the door stays shut before the next connection.
func (d *door) rest(now time.Time) time.Duration {
	if d.taken.take(d.all, now) {
		return 0
	}
	return d.taken.wait(d.all, now, min(doorBatch, d.all.burst))
}

// admits says whether an address has a connection left in its share.
func (d *door) admits(from string, now time.Time) bool {
	if now.Sub(d.swept) > doorSweep {
		for a, b := range d.from {
			if b.full(d.each, now) {
				delete(d.from, a)
			}
		}
		d.swept = now
	}
	b := d.from[from]
	if b == nil {
		b = &bucket{}
		d.from[from] = b
	}
	return b.take(d.each, now)
}

// acceptPauseMax bounds the wait after a failed accept, which ends by itself
// when file descriptors are free again.
const acceptPauseMax = time.Second

// accept takes connections until the listener is closed.
func (s *Server) accept() error {
	d, pause := newDoor(s.cfg.Limits), time.Duration(0)
	for {
		if rest := d.rest(time.Now()); rest > 0 {
			if !s.restAtDoor(rest) {
				return nil
			}
			continue
		}
		nc, err := s.listener.Accept()
		switch {
		case err == nil:
			pause = 0
			if !d.admits(networkOf(nc), time.Now()) {
				s.turnAway(nc)
				continue
			}
			s.admit(nc)
		case s.closing.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		default: // out of file descriptors or memory: those in use go on
			pause = min(max(2*pause, 5*time.Millisecond), acceptPauseMax)
			s.log.Error("accept failed; raise the limit of open files (ulimit -n)", "err", err, "again_in", pause)
			if !s.restAtDoor(pause) {
				return nil
			}
		}
	}
}

// restAtDoor waits; false: the node ends.
func (s *Server) restAtDoor(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.serving.Done():
		return false
	}
}

// admit serves a connection, unless there are too many.
func (s *Server) admit(nc net.Conn) {
	from := networkOf(nc)
	if s.counters.connections.Add(1) > int64(s.cfg.Limits.Connections) {
		s.counters.connections.Add(-1)
		s.turnAway(nc)
		return
	}
	if !s.strangers.enter(from, s.cfg.Limits.Strangers) {
		s.counters.connections.Add(-1)
		s.turnAway(nc)
		return
	}
	s.counters.connectionsTotal.Add(1)
	c := newConn(s, nc)
	c.known = sync.OnceFunc(func() { s.strangers.leave(from) })
	s.conns.Lock()
	s.conns.open[c] = struct{}{}
	s.conns.Unlock()
	if !s.serving.start(c.serve) {
		c.end()
		c.known()
		nc.Close()
		s.gone(c)
	}
}

// turnAway resets a connection: neither its closing handshake nor what it has sent
// takes up the kernel's memory any longer.
func (s *Server) turnAway(nc net.Conn) {
	s.counters.connectionsOver.Add(1)
	if t, ok := nc.(*net.TCPConn); ok {
		t.SetLinger(0) // fails only on a closed connection
	}
	nc.Close()
}
