package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/watch"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// Server is one node. Its methods may be called at once.
type Server struct {
	cfg   Config
	log   *slog.Logger
	parts parts

	store     *durable.Dir // nil: a cache alone
	memories  memories
	tickets   tickets
	clients   clients
	strangers strangers
	replicas  *producer.ReplicaCache // nil without a store
	appenders *appenders             // nil without a store
	filler    *filler                // nil: Fill is refused
	waiting   atomic.Int64           // AwaitArena requests that have not been answered
	writers   *producer.Workers
	bootID    string
	listener  net.Listener
	web       *web           // nil: no HTTP
	watcher   *watch.Watcher // of the page; nil: nobody looks
	accepting atomic.Bool    // clients are answered
	started   time.Time
	closers   closers

	counters     counters
	shards       shards
	payloads     payloads
	appendBytes  *budget // of requests that run beside
	durableBytes *budget
	disk         chan struct{} // places for durable reads

	// life ends when nothing is waited for any more: at the end of Shutdown.
	life     context.Context
	end      context.CancelFunc
	serving  *stopper // accept loop, sweeps, connections
	work     *stopper // requests that run beside
	closing  atomic.Bool
	shutdown struct {
		once sync.Once
		err  error
		done chan struct{}
	}
	conns struct {
		sync.Mutex
		open map[*conn]struct{}
	}
}

// New starts everything but the answering: durable store, arena, Unix socket,
// RDMA, and the TCP address is taken. Call Serve next, or Shutdown.
//
// Errors match ErrConfig, ErrSocket, ErrRDMA, or come from the part that failed.
func New(cfg Config) (*Server, error) { return newServer(cfg, realParts()) }

func newServer(cfg Config, p parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Logger, parts: p, started: time.Now(), bootID: bootID(),
		appendBytes: newBudget(cfg.Limits.AppendBytes), durableBytes: newBudget(cfg.Limits.DurableBytes),
		disk: make(chan struct{}, cfg.Limits.DurableReads), writers: producer.NewWorkers(cfg.Limits.Writers),
	}
	s.shards.s = s
	s.conns.open = make(map[*conn]struct{})
	s.shutdown.done = make(chan struct{})
	s.life, s.end = context.WithCancel(context.Background())
	s.serving, s.work = newStopper(s.life), newStopper(s.life)
	for _, step := range []func() error{
		s.listen, s.startStore, s.startMemories, s.startMetrics, s.startReplicas, s.startFiller, s.startHTTP,
	} {
		if err := step(); err != nil {
			s.end()
			return nil, errors.Join(err, s.closers.close())
		}
	}
	return s, nil
}

// listen takes the TCP address first, as the socket's name needs the port, and
// since a port that is taken is the most common mistake. Nobody is answered
// before Serve.
func (s *Server) listen() error {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	l, err := lc.Listen(s.life, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.listener = l
	s.closers.add("listener", func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

func (s *Server) startStore() error {
	if s.cfg.Dir == "" {
		return nil
	}
	store, err := durable.Open(s.cfg.Dir, s.cfg.Durable)
	if err != nil {
		return err
	}
	if !s.cfg.Durable.ReadOnly {
		if err := store.Own(); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	s.store = store
	s.closers.add("durable store", store.Close)
	s.appenders = newAppenders(s.cfg.Limits, s.log, s.openShard)
	return nil
}

// openShard opens a shard of the store for append.
func (s *Server) openShard(ctx context.Context, shard layout.Shard) (*producer.Appender, error) {
	name := shard.String()
	log, err := s.store.Log(name)
	if err != nil {
		return nil, err
	}
	a, err := producer.Open(ctx, producer.Config{
		Shard: shard, Log: log, Cache: s.replicas, Heartbeat: s.cfg.Heartbeat, Workers: s.writers,
		ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
			return s.store.ReadAt(ctx, name, pos, p)
		},
		Logger: s.log, Registerer: s.cfg.Registerer, Clock: s.cfg.Clock,
	})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return a, nil
}

// Addr is the TCP address that the node listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Socket is the path of the Unix socket for shared memory; empty: none.
func (s *Server) Socket() string { return s.main().socketPath }

// hello is what the node says about itself to a client.
func (s *Server) hello(p *peer) wire.HelloReply {
	h := wire.HelloReply{
		Version: wire.Version, Epoch: p.memory.arena.Epoch(), ArenaSize: uint64(len(p.memory.arena.Bytes())), BootID: s.bootID,
	}
	if p.reads {
		h.Features |= wire.FeatureAwait | wire.FeatureExtents
		h.ShmPath, h.Ticket = p.memory.socketPath, p.ticket
	}
	if p.named != nil {
		h.Features |= wire.FeatureNames
	}
	if s.store != nil {
		h.Features |= wire.FeatureDurable
	}
	if p.reads && p.memory.export != nil {
		h.Features |= wire.FeatureRDMA
	}
	if s.filler != nil {
		h.Features |= wire.FeatureFill
	}
	return h
}
