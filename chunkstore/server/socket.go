package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma/local"
)

// maxSocketPath is the longest path of a Unix socket that every system takes
// (sun_path has 104 bytes on BSD and macOS, 108 on Linux, with the final zero).
const maxSocketPath = 103

var _ [wire.MaxShmPath - maxSocketPath]struct{}

// startSocket offers a memory to processes of this host. A path that was asked
// for must work; without the default one the node serves all the same, and says so.
func (s *Server) startSocket(m *memory) error {
	if s.cfg.Socket == SocketNone {
		m.socketReason = "switched off (--socket none)"
		return nil
	}
	err := s.listenSocket(m, s.cfg.Socket)
	if err != nil && s.cfg.Socket == "" {
		m.socketReason = err.Error()
		s.log.Warn("serving without shared memory: consumers on this host read over TCP or RDMA", "reason", err)
		return nil
	}
	return err
}

func (s *Server) listenSocket(m *memory, path string) (err error) {
	if path == "" {
		if path, err = s.defaultSocket(); err != nil {
			return err
		}
	}
	path = tenantSocket(path, m.tenant)
	// Clients are told this path, and run in directories of their own.
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("%w: %w", ErrSocket, err)
	}
	if len(path) > maxSocketPath {
		return fmt.Errorf("%w: path of %d bytes, at most %d: set a shorter one (--socket PATH), or none", ErrSocket, len(path), maxSocketPath)
	}
	f, err := m.arena.File()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSocket, err)
	}
	cfg := local.ListenConfig{Logger: s.log, MaxConns: s.cfg.Limits.Connections, Word: m.arena.Spare()}
	if s.cfg.Guard != nil {
		cfg.Admit = func(uid uint32, ticket []byte) error { return s.admitLocal(m, uid, ticket) }
	}
	l, err := cfg.Listen(path, f, uint64(len(m.arena.Bytes())), m.arena.Epoch())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSocket, err)
	}
	m.socket, m.socketPath = l, path
	return nil
}

// defaultSocket is PORT.sock in a directory of this user's own.
func (s *Server) defaultSocket() (string, error) {
	dir := filepath.Join(os.TempDir(), "rmatail-"+strconv.Itoa(os.Getuid()))
	if err := privateDir(dir); err != nil {
		return "", err
	}
	port := 0
	if a, ok := s.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	return filepath.Join(dir, strconv.Itoa(port)+".sock"), nil
}

// privateDir makes a directory that only this user can enter, or checks that the
// one that is there is so: under a temporary directory anybody may have made it.
func privateDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: directory %s: %w; set another path (--socket PATH), or none", ErrSocket, dir, err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("%w: directory %s: %w", ErrSocket, dir, err)
	}
	if !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 || !ownedByMe(fi) {
		return fmt.Errorf("%w: %s (%v) is not a directory of this user alone; remove it, or set another path (--socket PATH)", ErrSocket, dir, fi.Mode())
	}
	return nil
}
