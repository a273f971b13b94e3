package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// maxPath is the longest socket path that every system takes: sun_path has
	// 108 bytes on Linux and 104 elsewhere, with a final zero.
	maxPath = 103
	// maxConns bounds the consumers of one node; one more is closed at once.
	maxConns = 8192
	// socketMode lets the owner and its group read the arena.
	socketMode = 0o660
)

// Server hands an arena out at a Unix socket.
type Server struct {
	path  string
	l     *net.UnixListener
	f     *os.File
	size  uint64
	epoch uint64
	tasks sync.WaitGroup

	mu struct {
		sync.Mutex
		conns  map[*net.UnixConn]struct{}
		closed bool
	}
}

// Listen serves the sealed memory file f at path until Close. f stays the
// caller's. A socket file that nobody listens behind is replaced; one that
// somebody does is ErrInUse.
func Listen(path string, f *os.File, size, epoch uint64) (*Server, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("socket path of %d bytes, at most %d are possible; set a shorter one: %s", len(path), maxPath, path)
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Server{path: path, l: l, f: f, size: size, epoch: epoch}
	s.mu.conns = map[*net.UnixConn]struct{}{}
	s.tasks.Go(s.accept)
	return s, nil
}

// clearStale removes the socket of a node that did not end well.
func clearStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%w: %s is there and is no socket; move it away or set another path", ErrInUse, path)
	}
	c, err := net.DialTimeout("unix", path, handshakeTimeout)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%w: a process answers at %s; stop it or set another path", ErrInUse, path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("%w: %s: %w", ErrInUse, filepath.Base(path), err)
}

// accept hands the arena to each consumer and keeps its connection.
func (s *Server) accept() {
	for {
		c, err := s.l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most likely: they come back
			<-time.After(20 * time.Millisecond)
			continue
		}
		if !s.keep(c) {
			c.Close()
			continue
		}
		s.tasks.Go(func() {
			defer s.drop(c)
			if sendArena(c, s.f, s.size, s.epoch) != nil {
				return
			}
			var p [1]byte
			c.Read(p[:]) // a consumer never writes: this is its end, or ours
		})
	}
}

func (s *Server) keep(c *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || len(s.mu.conns) >= maxConns {
		return false
	}
	s.mu.conns[c] = struct{}{}
	return true
}

func (s *Server) drop(c *net.UnixConn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
}

// Conns returns the number of consumers that hold the arena.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

// Close ends listening and all connections, and removes the socket file.
func (s *Server) Close() error {
	err := s.l.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	s.mu.Lock()
	s.mu.closed = true
	for c := range s.mu.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.tasks.Wait()
	return err
}
