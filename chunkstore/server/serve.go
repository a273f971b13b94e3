package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Serve answers clients until ctx is done or Shutdown is called. In the first
// case it shuts down, and waits no longer than Limits.Request. It returns
// ErrClosed after a clean end. Call it once.
func (s *Server) Serve(ctx context.Context) error {
	if s.web != nil && !s.serving.start(s.web.serve) {
		return ErrClosed
	}
	failed := make(chan error, 1)
	if s.retains() && !s.serving.start(s.retention) {
		return ErrClosed
	}
	if s.cfg.Guard != nil && !s.serving.start(s.followRules) {
		return ErrClosed
	}
	for _, m := range s.memories.now.Load().of {
		if !s.deliver(m) {
			return ErrClosed
		}
	}
	if !s.serving.start(s.evictions) || !s.serving.start(s.shards.run) || !s.serving.start(func() { failed <- s.accept() }) {
		return ErrClosed
	}
	s.accepting.Store(true)
	s.log.Info("serving", "listen", s.Addr().String(), "socket", s.Socket(), "rdma", s.main().export != nil, "durable", s.store != nil, "arena_bytes", len(s.main().arena.Bytes()))
	var err error
	select {
	case <-ctx.Done():
	case <-s.shutdown.done:
	case err = <-failed:
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.Request)
	defer cancel()
	if err := errors.Join(err, s.Shutdown(bounded)); err != nil {
		return err
	}
	return ErrClosed
}

// gone forgets a connection that has ended.
func (s *Server) gone(c *conn) {
	s.conns.Lock()
	defer s.conns.Unlock()
	delete(s.conns.open, c)
	s.counters.connections.Add(-1)
}

func (s *Server) eachConn(f func(*conn)) {
	s.conns.Lock()
	defer s.conns.Unlock()
	for c := range s.conns.open {
		f(c)
	}
}

// forsakeDeleted closes the shards whose files were removed under the node. Their
// appenders would beat on for them, and consumers would wait for what is no more.
func (s *Server) forsakeDeleted() {
	for _, shard := range s.appenders.unused() {
		if _, err := s.store.Stat(s.life, shard.String()); errors.Is(err, wire.ErrUnknownShard) {
			s.log.Warn("shard was deleted while it was open", "shard", shard)
			s.appenders.forsake(shard)
		}
	}
}

// evictions sweeps expired chunks, lengths and idle shards.
func (s *Server) evictions() {
	t := time.NewTicker(s.cfg.EvictEvery)
	defer t.Stop()
	for {
		select {
		case <-s.serving.Done():
			return
		case <-t.C:
			s.evict()
			s.clients.sweep(time.Now())
			if s.appenders != nil {
				s.appenders.sweep()
				s.forsakeDeleted()
			}
		}
	}
}

// retains says whether there is anything to remove, ever.
func (s *Server) retains() bool {
	return s.store != nil && (s.cfg.Durable.RetainAge > 0 || s.cfg.Durable.RetainBytes > 0)
}

// retention removes segments that are no longer kept: at once, and then now and
// then. It has a goroutine of its own, as removing a large file takes time.
func (s *Server) retention() {
	t := time.NewTicker(s.cfg.RetainEvery)
	defer t.Stop()
	for {
		r, err := s.store.Retain(s.serving)
		s.counters.segmentsRemoved.Add(uint64(r.Segments))
		s.counters.segmentBytesRemoved.Add(r.Bytes)
		if err != nil && s.serving.Err() == nil {
			s.log.Error("segments that are not to be kept are still there", "err", err, "again_in", s.cfg.RetainEvery)
		}
		select {
		case <-s.serving.Done():
			return
		case <-t.C:
		}
	}
}

// Shutdown stops the node: no new connections, requests are refused with
// wire.ErrClosing, those under way finish, appends included, and everything is
// closed. When ctx ends before that, requests are cut off; what then still hangs
// (in a disk, say) is left to it, with the arena and the store open, and ctx's
// error is returned. Further calls wait for the first.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.once.Do(func() {
		s.shutdown.err = s.stop(ctx)
		close(s.shutdown.done)
	})
	<-s.shutdown.done
	return s.shutdown.err
}

func (s *Server) stop(ctx context.Context) error {
	s.log.Info("shutting down", "connections", s.counters.connections.Load(), "in_flight", s.counters.inFlight.Load())
	s.closing.Store(true)
	s.listener.Close() // a second time in closers, where it is no error
	for _, m := range s.memories.now.Load().of {
		m.waits.stop()
	}
	s.work.close()
	err := s.drain(ctx)
	if err != nil { // cut off who hangs, and give them a moment to notice
		s.end()
		s.eachConn(func(c *conn) { c.nc.Close() })
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.drain(last) != nil {
			return fmt.Errorf("shutdown, with requests that hang: %w", err)
		}
	}
	s.end()
	if s.appenders != nil {
		err = errors.Join(err, s.appenders.failures())
	}
	return errors.Join(err, s.closers.close())
}

// drain waits for everything that may touch the arena or the store to end, in
// the order of the package comment. Its error is ctx's: something hangs. It may
// be called again.
func (s *Server) drain(ctx context.Context) error {
	err := s.work.wait(ctx) // their replies are written, too
	if s.appenders != nil {
		err = errors.Join(err, s.appenders.close(ctx))
	}
	s.serving.cancel()
	s.serving.close()
	s.eachConn(func(c *conn) { c.in.stop() })
	if s.web != nil {
		err = errors.Join(err, s.web.close(ctx))
	}
	return errors.Join(err, s.serving.wait(ctx))
}
