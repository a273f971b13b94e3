package main

import (
	"io"
	"log/slog"

	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/internal/bytesize"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

// defaultServer is the node that commands talk to when nothing else is said.
const defaultServer = "127.0.0.1:7440"

// logFlags say what goes to standard error.
type logFlags struct {
	Level  slog.Level `help:"What to log to standard error: debug, info, warn or error." default:"info" placeholder:"LEVEL"`
	Format string     `help:"text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
}

func (f logFlags) logger(w io.Writer) *slog.Logger { return f.at(w, f.Level) }

// quiet is the logger of libraries under a client command, which says in its own
// words what they do: they add their warnings, and the rest with debug.
func (f logFlags) quiet(w io.Writer) *slog.Logger {
	if f.Level <= slog.LevelDebug {
		return f.at(w, f.Level)
	}
	return f.at(w, max(f.Level, slog.LevelWarn))
}

func (f logFlags) at(w io.Writer, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if f.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// storeFlags say where a command finds shards.
type storeFlags struct {
	Server  string `help:"The node's address. Default 127.0.0.1:7440 if there is no --cluster and no --dir either." placeholder:"HOST:PORT"`
	Cluster string `help:"The file that describes a cluster (YAML), instead of one node." placeholder:"FILE"`
	Dir     string `help:"The durable directory, if this host can open it: bytes that no cache has are read there directly. Without --server everything is." placeholder:"DIR" type:"path"`
}

// address is the node to talk to, empty if a cluster or only the directory is meant.
func (f storeFlags) address() string {
	if f.Server == "" && f.Cluster == "" && f.Dir == "" {
		return defaultServer
	}
	return f.Server
}

// readFlags say how a command reads.
type readFlags struct {
	storeFlags
	Transport transport `help:"Memory transport: auto, shm, rdma or tcp. The durable store stays the last resort." default:"auto" placeholder:"NAME"`
	Device    string    `help:"RDMA device (default: the one that routes to the node)." placeholder:"NAME"`
}

// config is that of a reader; source is the cluster, or nil.
func (f readFlags) config(p *process, source *file.Source) reader.Config {
	cfg := reader.Config{Server: f.address(), Dir: f.Dir, Transport: reader.Transport(f.Transport),
		RDMA: rdma.Config{Device: f.Device, GIDIndex: -1, Logger: p.quiet}, Credentials: p.credentials(), Logger: p.quiet}
	if source != nil {
		view, _ := source.View()
		cfg.Cluster, cfg.HedgeDelay = source, view.HedgeDelay
	}
	return cfg
}

// transport is a reader.Transport as a flag.
type transport reader.Transport

func (t *transport) UnmarshalText(text []byte) error {
	v, err := reader.ParseTransport(string(text))
	*t = transport(v)
	return err
}

// shard is a layout.Shard as an argument.
type shard struct{ layout.Shard }

func (s *shard) UnmarshalText(text []byte) (err error) {
	s.Shard, err = layout.ParseShard(string(text))
	return err
}

// size is a number of bytes as a flag.
type size = bytesize.Bytes
