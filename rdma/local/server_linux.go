package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Server hands a node's arena to consumers on its host. Its methods may be called
// by any goroutine.
type Server struct {
	cfg      ListenConfig
	path     string
	listener *net.UnixListener
	bound    os.FileInfo // the socket file, to remove no other one
	file     *os.File    // the server's own descriptor of the memory file
	serves   answer
	word     *uint32      // nil: consumers are not woken
	held     atomic.Int64 // connections
	stop     chan struct{}
	running  sync.WaitGroup
	once     sync.Once
	closeErr error
	mu       struct {
		sync.Mutex
		conns map[*net.UnixConn]struct{} // nil after Close
	}
}

// Listen serves with a zero ListenConfig.
func Listen(path string, f *os.File, size, epoch uint64) (*Server, error) {
	return ListenConfig{}.Listen(path, f, size, epoch)
}

// Listen begins to hand out a sealed memory file, whose first size bytes are the
// arena of the epoch (not zero), at a Unix socket. It keeps a descriptor of its
// own: f stays the caller's. A socket file that a dead server has left at the path
// is replaced. Errors match ErrConfig, ErrPath, ErrInUse, ErrSize, ErrUnsealed or
// those of the operating system.
func (cfg ListenConfig) Listen(path string, f *os.File, size, epoch uint64) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, path: path, stop: make(chan struct{})}
	s.word = wakeWord(cfg.Word)
	startWord(s.word)
	s.serves = answer{version: version, epoch: epoch, size: size}
	if s.file, err = duplicate(f); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	s.mu.conns = map[*net.UnixConn]struct{}{}
	s.running.Go(s.accept)
	return s, nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func (s *Server) listen() error {
	// Consumers must not crash by a shrinking file, nor write, nor lift the seals.
	if err := checkSeals(int(s.file.Fd()), unix.F_SEAL_SHRINK|unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	s.serves.fileSize = uint64(info.Size())
	if s.serves.size == 0 || s.serves.size > s.serves.fileSize || s.serves.epoch == 0 {
		return fmt.Errorf("%w: arena of %d bytes, epoch %016x, in a file of %d", ErrSize, s.serves.size, s.serves.epoch, s.serves.fileSize)
	}
	if s.listener, err = listenAt(s.path, s.cfg.Mode); err != nil {
		return err
	}
	if s.bound, err = os.Lstat(s.path); err != nil {
		return errors.Join(fmt.Errorf("memory socket: %w", err), s.listener.Close())
	}
	return nil
}

// accept runs until Close closes the listener.
func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case err == nil:
			s.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, mostly: connections wait in the queue
			s.cfg.Logger.Warn("memory socket does not accept", "path", s.path, "err", err)
			pause := time.NewTimer(100 * time.Millisecond)
			select {
			case <-pause.C:
			case <-s.stop:
				pause.Stop()
				return
			}
		}
	}
}

// admit starts serving a connection, or refuses it.
func (s *Server) admit(conn *net.UnixConn) {
	switch s.enter(conn) {
	case admitted:
		s.running.Go(func() {
			defer s.leave(conn)
			if err := s.serve(conn); err != nil {
				s.cfg.Logger.Debug("memory socket ends a connection", "path", s.path, "err", err)
			}
		})
	case full:
		busy := s.serves
		busy.status = statusBusy
		conn.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout))
		_, err := conn.Write(busy.encode()) // into an empty buffer: this does not wait
		conn.Close()
		s.cfg.Logger.Warn("memory socket refuses a consumer", "path", s.path, "limit", s.cfg.MaxConns, "err", err)
	case closing:
		conn.Close()
	}
}

// admission is the decision about a new connection.
type admission uint8

const (
	admitted admission = iota
	full
	closing
)

func (s *Server) enter(conn *net.UnixConn) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.conns == nil:
		return closing
	case len(s.mu.conns) >= s.cfg.MaxConns:
		return full
	}
	s.mu.conns[conn] = struct{}{}
	s.held.Add(1)
	return admitted
}

func (s *Server) leave(conn *net.UnixConn) {
	conn.Close()
	s.held.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, conn)
}

// serve hands the file over and then waits for the consumer to go.
func (s *Server) serve(conn *net.UnixConn) error {
	conn.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout))
	b := make([]byte, requestSize)
	if n, err := io.ReadFull(conn, b); err != nil {
		return fmt.Errorf("%w: request of %d bytes: %w", ErrHandshake, n, err)
	}
	r, err := parseRequest(b)
	if err != nil {
		return err
	}
	ticket, err := s.ticket(conn, r.ticket)
	if err != nil {
		return err
	}
	a := r.decide(s.serves)
	var denied error
	if s.cfg.Admit != nil && a.status == statusOK {
		if denied = s.admitted(conn, ticket); denied != nil {
			a = answer{version: version, status: statusDenied, epoch: a.epoch}
		}
	}
	if a.status != statusOK {
		_, err := conn.Write(a.encode())
		return errors.Join(fmt.Errorf("%w: status %d to version %d, epoch %016x", ErrHandshake, a.status, r.version, r.epoch), denied, err)
	}
	if _, _, err := conn.WriteMsgUnix(a.encode(), unix.UnixRights(int(s.file.Fd())), nil); err != nil {
		return fmt.Errorf("%w: answer: %w", ErrHandshake, err)
	}
	conn.SetDeadline(time.Time{})
	if n, err := conn.Read(b[:1]); n > 0 {
		return fmt.Errorf("%w: the consumer says more after its request", ErrHandshake)
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("consumer: %w", err)
	}
	return nil
}

// ticket reads what follows a request; nil: nothing.
func (s *Server) ticket(conn *net.UnixConn, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, n)
	if got, err := io.ReadFull(conn, b); err != nil {
		return nil, fmt.Errorf("%w: ticket of %d bytes: %w", ErrHandshake, got, err)
	}
	return b, nil
}

// admitted asks whether a consumer may have the memory.
func (s *Server) admitted(conn *net.UnixConn, ticket []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if peerErr != nil {
		return fmt.Errorf("user of the consumer: %w", peerErr)
	}
	return s.cfg.Admit(peer.Uid, ticket)
}

// Conns returns how many consumers are connected, those in their handshake included.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

// Close removes the socket file and ends all connections, by which consumers know
// that the node is gone.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.stop)
		s.closeErr = errors.Join(s.remove(), s.listener.Close())
		s.mu.Lock()
		conns := s.mu.conns
		s.mu.conns = nil
		for conn := range conns {
			conn.Close()
		}
		s.mu.Unlock()
		s.running.Wait()
		s.closeErr = errors.Join(s.closeErr, s.file.Close())
	})
	return s.closeErr
}

// remove removes the socket file unless it is another one by now. The open
// listener keeps its inode, so that the number is not in use again.
func (s *Server) remove() error {
	unlock, err := lockDir(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	defer unlock()
	if info, err := os.Lstat(s.path); err != nil || !os.SameFile(info, s.bound) {
		return nil
	}
	return os.Remove(s.path)
}
