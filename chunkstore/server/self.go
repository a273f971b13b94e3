package server

import (
	"context"
	"net"

	"github.com/rmatail/rmatail/fallback/wire"
)

// inside is a connection within the process: the node's own, which nobody is asked
// about.
type inside struct{ net.Conn }

func within(nc net.Conn) bool {
	_, own := nc.(inside)
	return own
}

// dialSelf connects the node to itself, as an admin who needs nothing to show.
func (s *Server) dialSelf(ctx context.Context) (*wire.Client, error) {
	ours, theirs := net.Pipe()
	s.admit(inside{theirs})
	return wire.NewClient(ctx, ours, wire.Options{Name: "rmatail-page"})
}
