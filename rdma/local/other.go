//go:build !linux

package local

import (
	"context"
	"os"
)

// Server hands a node's arena to consumers on its host. There is none here.
type Server struct{}

// Listen returns ErrUnsupported.
func Listen(path string, f *os.File, size, epoch uint64) (*Server, error) {
	return ListenConfig{}.Listen(path, f, size, epoch)
}

// Listen returns ErrUnsupported.
func (cfg ListenConfig) Listen(path string, f *os.File, size, epoch uint64) (*Server, error) {
	return nil, ErrUnsupported
}

// Conns returns 0.
func (s *Server) Conns() int { return 0 }

// Close does nothing.
func (s *Server) Close() error { return nil }

// Dial returns ErrUnsupported.
func Dial(ctx context.Context, path string, wantEpoch uint64) (*Conn, error) {
	return Dialer{}.Dial(ctx, path, wantEpoch)
}

// Dial returns ErrUnsupported.
func (d Dialer) Dial(ctx context.Context, path string, wantEpoch uint64) (*Conn, error) {
	return nil, ErrUnsupported
}
