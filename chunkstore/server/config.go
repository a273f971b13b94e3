package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// RDMAMode says what happens when RDMA cannot be had.
type RDMAMode int

const (
	// RDMAAuto serves without RDMA, and logs why.
	RDMAAuto RDMAMode = iota
	// RDMAOff does not look for devices.
	RDMAOff
	// RDMARequire fails the start.
	RDMARequire
)

// ParseRDMAMode reads auto, off or require.
func ParseRDMAMode(s string) (RDMAMode, error) {
	for m := RDMAAuto; m <= RDMARequire; m++ {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%w: RDMA mode %q, want auto, off or require", ErrConfig, s)
}

func (m RDMAMode) String() string { return [...]string{"auto", "off", "require"}[m] }

// SocketNone as Config.Socket switches shared memory off.
const SocketNone = "none"

// Config describes a node. The zero value of each field but Listen means its
// default.
type Config struct {
	// Listen is the TCP address, host:port. Port 0 picks a free one.
	Listen string
	// Dir is the durable directory that the node owns. Empty: the node is a cache
	// alone, and refuses durable operations with wire.ErrNoStore.
	Dir string
	// Durable says how appends become durable, and how long they are kept. Its
	// Logger and Clock are the node's.
	Durable durable.Options
	// Arena is how the arena is made: its size (64 MiB), pages, locking, times to
	// live. Its Clock is the node's, if unset.
	Arena chunkstore.Config
	// Socket is the path of the Unix socket that hands out the arena to processes
	// of this host. Empty: rmatail-UID/PORT.sock under the temporary directory.
	// SocketNone: none.
	Socket string
	// RDMAMode and RDMA say whether and how the arena is exported by RDMA. A zero
	// RDMA stands for rdma.DefaultConfig, and its Logger is the node's, if unset.
	RDMAMode RDMAMode
	RDMA     rdma.Config
	// Cluster is the cluster that the node, Node in it, is of: what its own appenders
	// append is mirrored to all replicas. nil: the node is alone.
	Cluster cluster.Source
	Node    string
	// ReadThrough is how many bytes a second the node may read from the cluster's
	// durable store into its arena, for readers that miss extents which are its own:
	// once for all of them. They make room as others do. 0: none.
	ReadThrough int64
	// HTTP is the address of the page, /metrics, /healthz, /readyz and /debug/pprof/.
	// HTTPAuto: DefaultHTTP if it is free, else none. Empty: none. With https:// before it
	// they are served by TLS, with the certificate of Guard, which must have one. With a
	// Guard and without HTTPAdmit only a loopback address shows more than health.
	HTTP string
	// HTTPAdmit says which HTTP requests are answered, /healthz and /readyz apart; see
	// TokenFile. nil: all, but profiles at a loopback address only.
	HTTPAdmit func(*http.Request) bool
	// Limits bound what clients can use up.
	Limits Limits
	// Guard says who clients are and what they may do; it stays the caller's. nil:
	// whoever reaches the node may do everything.
	Guard *auth.Guard
	// Credentials are what the node shows to the others of its cluster. nil: nothing.
	Credentials wire.Credentials

	// EvictEvery is how often expired chunks and lengths are swept. 1 s.
	EvictEvery time.Duration
	// RetainEvery is how often segments that Durable no longer keeps are removed. 1 min.
	RetainEvery time.Duration
	// Heartbeat is how often the node's appenders publish when idle. 1 s.
	Heartbeat time.Duration

	// ShardMetrics is how many shards, the first by name, have metrics of their own and
	// are told by NodeStat; the rest are summed. 64; negative: none.
	ShardMetrics int

	Logger *slog.Logger // nil: nothing is logged
	// Registerer receives the metrics. /metrics serves it if it is a Gatherer too,
	// as a *prometheus.Registry is. nil: a registry of the node's own if HTTP is set.
	Registerer prometheus.Registerer
	Clock      func() time.Time // nil: time.Now
}

// Limits bound what clients can use up. The zero value of each means its default.
type Limits struct {
	// Connections at once; one more is closed at once. 4,096.
	Connections int
	// Strangers are those of one address (of IPv6: of one network of 64 bits) whose
	// Hello has not come yet; one more is closed at once. 1,024.
	Strangers int
	// Accepts is how many connections a second are taken; those that come faster wait in
	// the kernel, as far as its queue goes. 2,000.
	// AddressAccepts are those of one address or network, as many as Strangers at once;
	// what comes faster is reset. 500.
	Accepts, AddressAccepts int
	// ClientConnections, ClientQueuePairs and ClientBytes (of appends that wait) are
	// those of one client together: of one identity, or where clients are not asked
	// who they are, of one address. 2,048, 1,024 and 32 MiB.
	ClientConnections, ClientQueuePairs, ClientBytes int
	// ClientDurableBytes and ClientWaits are a client's part of DurableBytes and of
	// AllWaits. Half of them, at least 1 MiB.
	ClientDurableBytes, ClientWaits int
	// RequestsPerSecond of one client; what comes faster waits, unread. 0: no limit.
	RequestsPerSecond int
	// QueuePairsTotal are those of all clients. 4,096.
	QueuePairsTotal int
	// InFlight are the requests of one connection that wait for a disk or a
	// device. 64.
	InFlight int
	// InFlightBytes are the bytes of appends of one connection that wait. 8 MiB.
	InFlightBytes int
	// Waits are the requests of one connection that wait for news of a length page,
	// and AllWaits those of all, each of up to 5 KiB. 64 and 16,384.
	Waits    int
	AllWaits int
	// AppendBytes are those of all connections. 64 MiB.
	AppendBytes int
	// DurableReads are the durable reads of all connections on the disk at once. 16.
	DurableReads int
	// DurableBytes are the bytes of all durable reads that are not yet with their
	// clients. 32 MiB, at least 1 MiB.
	DurableBytes int
	// Appenders are the shards that are open for append at once. 1,024.
	Appenders int
	// Writers are the shards whose batches are on the disk at once. 32.
	Writers int
	// AppenderIdle is how long a shard stays open after its last append. Its
	// heartbeat ends with that. 10 min.
	AppenderIdle time.Duration
	// Handshake bounds the time from accept to the Hello. 5 s.
	Handshake time.Duration
	// Frame bounds the time from the first byte of a frame to its last. 30 s.
	Frame time.Duration
	// Write bounds one write of replies, after which a client that does not read
	// is cut off. 30 s.
	Write time.Duration
	// Idle cuts off a client that asks for nothing, unless its reads go over RDMA.
	// 0: never; a client that is gone is noticed by TCP keepalive within 30 s.
	Idle time.Duration
	// Request bounds a request whose client states no budget. 10 s.
	Request time.Duration
	// RequestMax bounds every other request. 2 min.
	RequestMax time.Duration
	// FlushBytes of replies gather before they are written. 256 KiB.
	FlushBytes int
	// QueuePairs of one connection; the oldest is closed for a further one. 2.
	QueuePairs int
}

func (l Limits) withDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, 4096)
	l.Strangers = cmp.Or(l.Strangers, 1024)
	l.Accepts = cmp.Or(l.Accepts, 2000)
	l.AddressAccepts = cmp.Or(l.AddressAccepts, 500)
	l.ClientConnections = cmp.Or(l.ClientConnections, 2048)
	l.ClientQueuePairs = cmp.Or(l.ClientQueuePairs, 1024)
	l.ClientBytes = cmp.Or(l.ClientBytes, 32<<20)
	l.QueuePairsTotal = cmp.Or(l.QueuePairsTotal, 4096)
	l.InFlight = cmp.Or(l.InFlight, 64)
	l.InFlightBytes = cmp.Or(l.InFlightBytes, 8<<20)
	l.Waits = cmp.Or(l.Waits, 64)
	l.AllWaits = cmp.Or(l.AllWaits, 16384)
	l.AppendBytes = cmp.Or(l.AppendBytes, 64<<20)
	l.DurableReads = cmp.Or(l.DurableReads, 16)
	l.DurableBytes = cmp.Or(l.DurableBytes, 32<<20)
	l.ClientDurableBytes = cmp.Or(l.ClientDurableBytes, max(l.DurableBytes/2, 1<<20))
	l.ClientWaits = cmp.Or(l.ClientWaits, max(l.AllWaits/2, 1))
	l.Appenders = cmp.Or(l.Appenders, 1024)
	l.Writers = cmp.Or(l.Writers, 32)
	l.AppenderIdle = cmp.Or(l.AppenderIdle, 10*time.Minute)
	l.Handshake = cmp.Or(l.Handshake, 5*time.Second)
	l.Frame = cmp.Or(l.Frame, 30*time.Second)
	l.Write = cmp.Or(l.Write, 30*time.Second)
	l.Request = cmp.Or(l.Request, 10*time.Second)
	l.RequestMax = cmp.Or(l.RequestMax, 2*time.Minute)
	l.FlushBytes = cmp.Or(l.FlushBytes, 256<<10)
	l.QueuePairs = cmp.Or(l.QueuePairs, 2)
	return l
}

func (c Config) withDefaults() Config {
	c.Arena.Bytes = cmp.Or(c.Arena.Bytes, 64<<20)
	c.ShardMetrics = cmp.Or(c.ShardMetrics, 64)
	c.EvictEvery = cmp.Or(c.EvictEvery, time.Second)
	c.RetainEvery = cmp.Or(c.RetainEvery, time.Minute)
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Arena.Clock == nil {
		c.Arena.Clock = c.Clock
	}
	c.Durable.Clock, c.Durable.Logger = c.Clock, c.Logger
	if c.RDMA == (rdma.Config{}) {
		c.RDMA = rdma.DefaultConfig()
	}
	c.RDMA.Logger = cmp.Or(c.RDMA.Logger, c.Logger)
	c.Limits = c.Limits.withDefaults()
	return c
}

// Validate reports the first setting that cannot work, and what to set instead.
// Errors match ErrConfig.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := checkAddress("listen", c.Listen); err != nil {
		return err
	}
	if c.HTTP != "" && c.HTTP != HTTPAuto {
		addr, sealed := strings.CutPrefix(c.HTTP, "https://")
		if err := checkAddress("http", addr); err != nil {
			return err
		}
		if sealed && (c.Guard == nil || c.Guard.PageTLS() == nil) {
			return fmt.Errorf("%w: http %s, and no certificate: set one (--tls-cert, --tls-key), or leave https:// out", ErrConfig, c.HTTP)
		}
	}
	if err := c.Arena.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if _, err := layout.GeometryFor(c.Arena.Bytes); err != nil {
		return fmt.Errorf("%w: arena: %w; 64 MiB is a good start", ErrConfig, err)
	}
	if c.RDMAMode < RDMAAuto || c.RDMAMode > RDMARequire {
		return fmt.Errorf("%w: RDMA mode %d, want auto, off or require", ErrConfig, int(c.RDMAMode))
	}
	if err := c.RDMA.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.ReadThrough < 0 {
		return fmt.Errorf("%w: read-through of %d bytes a second; it cannot be negative", ErrConfig, c.ReadThrough)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"eviction interval", c.EvictEvery}, {"retention interval", c.RetainEvery}, {"heartbeat", c.Heartbeat},
	} {
		if d.value <= 0 {
			return fmt.Errorf("%w: %s of %v; leave it unset for the default", ErrConfig, d.name, d.value)
		}
	}
	return c.Limits.validate()
}

func (l Limits) validate() error {
	for _, n := range []struct {
		name  string
		value int
		least int
	}{
		{"connections", l.Connections, 1}, {"connections of strangers", l.Strangers, 1}, {"connections a second", l.Accepts, 1}, {"connections a second of an address", l.AddressAccepts, 1},
		{"connections of a client", l.ClientConnections, 1},
		{"queue pairs of a client", l.ClientQueuePairs, 1}, {"bytes of a client", l.ClientBytes, 1 << 20}, {"durable bytes of a client", l.ClientDurableBytes, 1 << 20}, {"waits of a client", l.ClientWaits, 1}, {"requests per second", l.RequestsPerSecond, 0},
		{"queue pairs of all", l.QueuePairsTotal, 1}, {"in-flight requests", l.InFlight, 1}, {"in-flight bytes", l.InFlightBytes, 1 << 20},
		{"append bytes", l.AppendBytes, 1 << 20}, {"durable reads", l.DurableReads, 1}, {"durable bytes", l.DurableBytes, 1 << 20},
		{"appenders", l.Appenders, 1}, {"writers", l.Writers, 1}, {"flush bytes", l.FlushBytes, 1}, {"waits", l.Waits, 1}, {"waits of all connections", l.AllWaits, 1}, {"queue pairs", l.QueuePairs, 1},
	} {
		if n.value < n.least {
			return fmt.Errorf("%w: limit of %d %s, want at least %d", ErrConfig, n.value, n.name, n.least)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"appender idle", l.AppenderIdle}, {"handshake", l.Handshake}, {"frame", l.Frame}, {"write", l.Write},
		{"request", l.Request}, {"longest request", l.RequestMax},
	} {
		if d.value <= 0 {
			return fmt.Errorf("%w: %s time of %v; leave it unset for the default", ErrConfig, d.name, d.value)
		}
	}
	if l.Idle < 0 {
		return fmt.Errorf("%w: idle time of %v; 0 means never", ErrConfig, l.Idle)
	}
	return nil
}

func checkAddress(what, addr string) error {
	if addr == "" {
		return fmt.Errorf("%w: no %s address; set one such as 127.0.0.1:7440, or :7440 for all interfaces", ErrConfig, what)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: %s address %q: %w; want host:port, such as 127.0.0.1:7440", ErrConfig, what, addr, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%w: %s address %q: %w; want a port of 0 to 65535", ErrConfig, what, addr, err)
	}
	return nil
}
