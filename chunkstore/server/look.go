package server

import (
	"context"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/server/page"
	"github.com/rmatail/rmatail/chunkstore/watch"
	"github.com/rmatail/rmatail/fallback/wire"
)

// look takes a sample of the cluster for the page, by the watcher that it makes when
// somebody begins to look. One goroutine at a time, as page promises.
func (s *Server) look(ctx context.Context) page.Sample {
	if s.watcher == nil {
		s.watcher = watch.New(s.watching())
	}
	f := s.watcher.Next(ctx)
	return page.Sample{Frame: f, Point: f.Totals}
}

// lookAway ends the watcher's connections when nobody looks.
func (s *Server) lookAway() {
	if s.watcher != nil {
		s.watcher.Close()
		s.watcher = nil
	}
}

func (s *Server) watching() watch.Options {
	o := watch.Options{
		View: func() *cluster.View { return s.view() }, Self: s.cfg.Node,
		Dial: func(ctx context.Context, addr string) (*wire.Client, error) {
			if n, ok := s.member(); s.cfg.Guard != nil && ok && n.Addr == addr {
				return s.dialSelf(ctx)
			}
			return wire.Dial(ctx, addr, wire.Options{Name: "rmatail-page", Credentials: s.cfg.Credentials})
		},
	}
	if s.store != nil {
		o.List = s.store.List
	}
	return o
}
