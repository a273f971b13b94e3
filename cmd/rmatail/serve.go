package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/rdma"
)

type serveCmd struct {
	Cluster string `help:"The file that describes a cluster (YAML): the node takes what it says of --node, follows its changes, and reads it at once on SIGHUP." placeholder:"FILE"`
	Node    string `help:"With --cluster: which node this is." placeholder:"NAME"`

	Listen    string `help:"TCP address for clients; port 0 picks a free one. Without --tls-cert or --tokens there is no authentication: keep it inside a trusted network. Default 127.0.0.1:7440." placeholder:"HOST:PORT"`
	Dir       string `help:"Durable directory that this node owns: it takes appends and serves durable reads. Without it the node is a cache only." placeholder:"DIR" type:"path"`
	HTTP      string `name:"http" help:"Address of the page, /metrics, /healthz, /readyz and /debug/pprof/; https:// before it: by TLS, with --tls-cert; none: no HTTP. Default: 127.0.0.1:7472, of this host alone, unless it is in use." placeholder:"HOST:PORT"`
	HTTPToken string `name:"http-token" help:"File with a token that HTTP requests need, health apart: Authorization: Bearer TOKEN, or a browser's password. Without it profiles are served at a loopback address only." placeholder:"FILE" type:"path"`
	JSON      bool   `name:"json" help:"When ready, print the addresses as one JSON object on standard output."`

	Arena     size          `help:"Memory for recent bytes. Default 64MiB." placeholder:"SIZE"`
	TTL       time.Duration `name:"ttl" help:"How long bytes stay in memory after they were written, when room gets short. Default 60s." placeholder:"TIME"`
	HugePages bool          `help:"Back the arena by reserved huge pages (sysctl vm.nr_hugepages)."`
	MLock     bool          `name:"mlock" help:"Keep the arena resident."`

	Policy       policy        `help:"When appends are flushed to the disk: always, interval or never." default:"always" placeholder:"NAME"`
	Interval     time.Duration `help:"With --policy interval: the longest time that bytes stay unflushed." default:"100ms" placeholder:"TIME"`
	SegmentBytes size          `help:"Begin a new segment file at this size." default:"256MiB" placeholder:"SIZE"`
	SegmentAge   time.Duration `help:"Begin a new segment file at this age." default:"1h" placeholder:"TIME"`

	RetainAge   time.Duration `help:"Keep what was appended within this time, and remove older segment files. Default: keep everything." placeholder:"TIME"`
	RetainBytes size          `help:"Keep so many of each shard's last bytes, and remove segment files below. Default: keep everything." placeholder:"SIZE"`

	ReadThrough size `help:"Read up to so many bytes a second from the durable store into the arena, once for all readers that miss them. Default: none; each reader asks the store itself." placeholder:"SIZE"`

	Socket   string   `help:"Unix socket that hands the arena to processes of this host, read-only; none: no shared memory. Default: rmatail-UID/PORT.sock under the temporary directory." placeholder:"PATH"`
	RDMA     rdmaMode `name:"rdma" help:"Export the arena by RDMA: auto (when it can be had, the default), off or require." placeholder:"WHEN"`
	Device   string   `help:"RDMA device (default: every usable one)." placeholder:"NAME"`
	GIDIndex int      `name:"gid-index" help:"GID index, -1 to choose." default:"-1" placeholder:"N"`

	Tokens  string `help:"Take clients that show a token: the file of them, a line NAME TOKEN each." placeholder:"FILE"`
	Revoked string `name:"tls-revoked" help:"Do not take certificates of this file, although they are signed: SHA-256 fingerprints, a line each, or revocation lists (PEM)." placeholder:"FILE"`
	Access  string `help:"Who may do what (YAML): the file of the node's rules. Without it whoever is known may do everything." placeholder:"FILE"`

	MaxConnections       int `help:"Connections at once." default:"4096" placeholder:"N"`
	MaxAccepts           int `help:"Connections a second that are taken; what comes faster waits in the kernel." default:"2000" placeholder:"N"`
	MaxAddressAccepts    int `help:"Those of one address, or of one IPv6 network of 64 bits; what comes faster is reset." default:"500" placeholder:"N"`
	MaxClientConnections int `help:"Connections at once of one client: of an identity, or of an address where nobody is asked who he is." default:"2048" placeholder:"N"`
	MaxClientRate        int `help:"Requests a second of one client; what comes faster waits. 0: no limit." default:"0" placeholder:"N"`
	MaxQueuePairs        int `help:"RDMA connections at once, of all clients." default:"4096" placeholder:"N"`

	UntilEOF bool `name:"until-eof" hidden:"" help:"Stop when standard input ends: for a parent that may die."`
}

// ready is what --json prints. Its keys are an interface.
type ready struct {
	Listen string `json:"listen"`
	HTTP   string `json:"http,omitempty"`
	Socket string `json:"socket,omitempty"`
	Node   string `json:"node,omitempty"`
}

func (c *serveCmd) config(p *process) server.Config {
	return server.Config{
		Listen: cmp.Or(c.Listen, defaultServer), Dir: c.Dir, HTTP: c.http(), Socket: c.Socket,
		Durable: durable.Options{Policy: durable.Policy(c.Policy), Interval: c.Interval, SegmentBytes: int64(c.SegmentBytes), SegmentAge: c.SegmentAge,
			RetainAge: c.RetainAge, RetainBytes: int64(c.RetainBytes)},
		Arena: c.arena(), ReadThrough: int64(c.ReadThrough),
		RDMAMode: server.RDMAMode(c.RDMA), RDMA: rdma.Config{Device: c.Device, GIDIndex: c.GIDIndex, Logger: p.log},
		Limits: server.Limits{Connections: c.MaxConnections, Accepts: c.MaxAccepts, AddressAccepts: c.MaxAddressAccepts, ClientConnections: c.MaxClientConnections, RequestsPerSecond: c.MaxClientRate, QueuePairsTotal: c.MaxQueuePairs},
		Logger: p.log,
	}
}

// http is Config.HTTP.
func (c *serveCmd) http() string {
	switch c.HTTP {
	case "":
		return server.HTTPAuto
	case "none":
		return ""
	}
	return c.HTTP
}

func (c *serveCmd) arena() chunkstore.Config {
	a := chunkstore.Config{Bytes: uint64(c.Arena), TTL: c.TTL}
	if c.HugePages {
		a.HugePages = chunkstore.HugePagesOn
	}
	if c.MLock {
		a.MLock = chunkstore.MLockOn
	}
	return a
}

func (c *serveCmd) Help() string {
	return `SIGUSR2 switches logging to debug, and back. Lines are written in the background: those that standard error does not take
in time are dropped, a message that comes over 10 times a second is held back, and both are counted and logged.

A node of a cluster takes listen, arena, http, socket, dir, rdma, device and ttl from the file; docs/cluster.md explains them.`
}

func (c *serveCmd) Run(p *process) (err error) {
	logs, err := p.logFlags.node(p.stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logs.close()) }()
	p.log = logs.Logger()
	source, err := c.cluster(p)
	if err != nil {
		return err
	}
	var described *file.Cluster
	if source != nil {
		defer func() { err = errors.Join(err, source.Close()) }()
		described = source.Current()
	}
	guard, err := c.guard(p, described)
	if err != nil {
		return err
	}
	cfg := c.config(p)
	cfg.Credentials = p.credentials()
	if guard != nil {
		defer func() { err = errors.Join(err, guard.Close()) }()
		cfg.Guard = guard
	}
	if source != nil {
		cfg.Cluster, cfg.Node = source, c.Node
	}
	if c.HTTPToken != "" {
		if cfg.HTTPAdmit, err = server.TokenFile(c.HTTPToken); err != nil {
			return err
		}
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	if source != nil || guard != nil {
		defer newHangup(p.log, source, c.Node, guard).close()
	}
	ctx, cancel := context.WithCancel(p)
	defer cancel()
	if c.UntilEOF {
		go func() { // ends with the process: nothing interrupts a read of standard input
			_, _ = io.Copy(io.Discard, p.stdin)
			cancel()
		}()
	}
	if c.JSON {
		r := ready{Listen: s.Addr().String(), Socket: s.Socket(), Node: c.Node}
		if a := s.HTTPAddr(); a != nil {
			r.HTTP = a.String()
		}
		if err := json.NewEncoder(p.stdout).Encode(r); err != nil {
			return errors.Join(err, s.Shutdown(ctx))
		}
	}
	if err := s.Serve(ctx); !errors.Is(err, server.ErrClosed) {
		return err
	}
	return nil
}

// rdmaMode is a server.RDMAMode as a flag.
type rdmaMode server.RDMAMode

func (m *rdmaMode) UnmarshalText(text []byte) error {
	v, err := server.ParseRDMAMode(string(text))
	*m = rdmaMode(v)
	return err
}
