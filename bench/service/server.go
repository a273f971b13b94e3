package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/wire"
)

const arenaBytes = 8 << 20

// target is what is measured.
type target interface {
	addr() string
	close() error
}

// small answers reads of an arena, and logs in between.
type small struct {
	arena    *chunkstore.Arena
	lines    *lines
	listener net.Listener
	running  sync.WaitGroup
	conns    struct {
		sync.Mutex
		open   map[net.Conn]struct{}
		closed bool
	}
}

func newSmall(l *lines) (*small, error) {
	arena, err := chunkstore.New(chunkstore.Config{Bytes: arenaBytes})
	if err != nil {
		return nil, err
	}
	s := &small{arena: arena, lines: l}
	s.conns.open = make(map[net.Conn]struct{})
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, arena.Close())
	}
	s.running.Go(s.accept)
	return s, nil
}

func (s *small) addr() string { return s.listener.Addr().String() }

func (s *small) accept() {
	for n := 0; ; n++ {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.conns.Lock()
		closed := s.conns.closed
		s.conns.open[c] = struct{}{}
		s.conns.Unlock()
		if closed {
			c.Close()
			return
		}
		s.running.Go(func() {
			defer c.Close()
			_ = s.serve(c, n) // a client that is gone has noticed itself
		})
	}
}

// serve answers one client until it closes.
func (s *small) serve(c net.Conn, client int) error {
	in := wire.NewFrameReader(bufio.NewReaderSize(c, 32<<10))
	var out wire.Replies
	for {
		h, payload, err := in.Next()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := s.answer(&out, h, payload, client); err != nil {
			out.Error(h, err)
		}
		if !in.Ready() {
			if err := out.Flush(c); err != nil {
				return err
			}
		}
		s.lines.inHandlers.Add(time.Since(began).Nanoseconds())
	}
}

func (s *small) answer(out *wire.Replies, h wire.Header, payload []byte, client int) error {
	switch h.Op {
	case wire.OpHello:
		if _, err := wire.ParseHelloRequest(payload); err != nil {
			return err
		}
		hello, err := wire.HelloReply{Version: wire.Version, Epoch: s.arena.Epoch(), ArenaSize: uint64(len(s.arena.Bytes()))}.AppendTo(nil)
		if err != nil {
			return err
		}
		out.Reply(h, hello)
		return nil
	case wire.OpReadArena:
		return s.read(out, h, payload, client)
	}
	return fmt.Errorf("operation %s: %w", h.Op, wire.ErrBadRequest)
}

func (s *small) read(out *wire.Replies, h wire.Header, payload []byte, client int) error {
	reads, err := wire.ParseReadArena(payload)
	if err != nil {
		return err
	}
	mem := s.arena.Bytes()
	for i := range reads.Len() {
		if r := reads.At(i); r.Off+uint64(r.N) > uint64(len(mem)) {
			return fmt.Errorf("read at %d behind the arena's %d B: %w", r.Off, len(mem), wire.ErrBadRequest)
		}
	}
	out.Header(h, reads.Total())
	for i := range reads.Len() {
		r := reads.At(i)
		out.Bytes(mem[r.Off:][:r.N])
		s.lines.request(client, r.Off, r.N)
	}
	return nil
}

func (s *small) close() error {
	err := s.listener.Close()
	s.conns.Lock()
	s.conns.closed = true
	for c := range s.conns.open {
		c.Close()
	}
	s.conns.Unlock()
	s.running.Wait()
	return errors.Join(err, s.arena.Close())
}

// node is a node's own server.
type node struct {
	s    *server.Server
	done chan error
	stop context.CancelFunc
}

func newNode(l *lines) (*node, error) {
	cfg := server.Config{Listen: "127.0.0.1:0", Arena: chunkstore.Config{Bytes: arenaBytes}, Socket: server.SocketNone, RDMAMode: server.RDMAOff}
	if l.phase.Path != Nowhere {
		cfg.Logger = l.log
	}
	s, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &node{s: s, done: make(chan error, 1), stop: stop}
	go func() { n.done <- s.Serve(ctx) }()
	return n, nil
}

func (n *node) addr() string { return n.s.Addr().String() }

func (n *node) close() error {
	n.stop()
	if err := <-n.done; !errors.Is(err, server.ErrClosed) {
		return err
	}
	return nil
}
