package reader

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// Transport is which memory transport a Cluster may use.
type Transport int

const (
	// Auto takes shm before rdma before tcp, whichever is up.
	Auto Transport = iota
	// SHM, RDMA and TCP allow that transport only; the durable store remains the
	// last resort.
	SHM
	RDMA
	TCP
)

// ParseTransport reads auto, shm, rdma or tcp.
func ParseTransport(s string) (Transport, error) {
	for t := Auto; t <= TCP; t++ {
		if s == t.String() {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: transport %q, want auto, shm, rdma or tcp", ErrConfig, s)
}

func (t Transport) String() string {
	if t < Auto || t > TCP {
		return fmt.Sprintf("transport %d", int(t))
	}
	return [...]string{"auto", "shm", "rdma", "tcp"}[t]
}

// reason says why the first transport that t allows is used.
func (t Transport) reason() string {
	if t == Auto {
		return "the best of shm, rdma and tcp"
	}
	return "asked for"
}

func (t Transport) allows(s Source) bool {
	return t == Auto || t == SHM && s == FromSHM || t == RDMA && s == FromRDMA || t == TCP && s == FromTCP
}

// Source is where delivered bytes came from: the cache over one of the memory
// transports, or the durable store.
type Source int

const (
	FromSHM Source = iota
	FromRDMA
	FromTCP
	FromDurable
	sources int = iota
)

func (s Source) String() string {
	if s < FromSHM || s > FromDurable {
		return fmt.Sprintf("source %d", int(s))
	}
	return [...]string{"shm", "rdma", "tcp", "durable"}[s]
}

// Config says which nodes to follow and how. The zero value of each field but
// Server, Cluster and Dir means its default.
type Config struct {
	// Server is a single node's address, host:port or unix:/path: the short form
	// of cluster.Single as Cluster. Without both, and only with Dir, every byte
	// comes from the durable store.
	Server string
	// Cluster says which nodes there are and what they hold.
	Cluster cluster.Source
	// Dir is the durable directory, if this host can open it; it must exist, and
	// is only read. Empty: durable reads go through the node, and stop while it is
	// away.
	Dir string
	// Transport limits the memory transports. Auto by default.
	Transport Transport
	// RDMA picks the device and its limits. Its zero value means
	// rdma.DefaultConfig(); start from that to change a part.
	RDMA rdma.Config

	// PollMin and PollMax bound the interval between polls of the length pages:
	// PollMin while bytes flow, PollMax when idle. 1 ms and 100 ms. Where a node tells
	// of news (over tcp, and over shm on Linux), it is not polled but waited for, unless
	// both are the same: that is an interval that was asked for. News that comes all the
	// time is taken once in PollMin then, and in up to 8 ms while it is 32 KiB or more each
	// time.
	PollMin, PollMax time.Duration
	// ReadTimeout bounds one memory read, after which the next transport is
	// tried. 250 ms.
	ReadTimeout time.Duration
	// HedgeDelay is after how long without an answer a second replica is asked for
	// the same bytes. 30 ms.
	HedgeDelay time.Duration
	// DurableDelay is how long bytes that exist may be missing from the cache
	// before the durable store is asked for them. 1 s. Evicted bytes do not wait,
	// nor do any without a Server.
	DurableDelay time.Duration
	// DurableConcurrency bounds the durable reads in flight in this process. 4.
	DurableConcurrency int
	// DurableBytesPerSecond caps the durable reads of this process. 0: no cap.
	DurableBytesPerSecond int64
	// BytesInFlight bounds the bytes of data reads that are on their way over one
	// network device: an RDMA device, or all tcp together. A single read may exceed
	// it. 256 MiB.
	BytesInFlight int64
	// Prefetch bounds the bytes that one Reader holds, delivered or read ahead,
	// 128 KiB to 16 MiB. 1 MiB.
	Prefetch int

	// Credentials are what nodes are shown, and what is demanded of them; an
	// *auth.Client has them. They stay the caller's. nil: nothing.
	Credentials wire.Credentials
	// ShardMetrics is how many shards, the first by name, have metrics of their own; the
	// rest are summed. 64; negative: none has.
	ShardMetrics int

	// Name, if set, is what this process is called where nodes are looked at: one of them
	// is told every two seconds how the process fares, so that its lag, its causes and what
	// it reads over shared memory and RDMA are on the page and in `rmatail stat`. At most 64
	// bytes are shown. Empty: nobody is told.
	Name string

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: no metrics
}

func (c Config) withDefaults() (Config, error) {
	c.PollMin = cmp.Or(c.PollMin, time.Millisecond)
	c.PollMax = cmp.Or(c.PollMax, max(100*time.Millisecond, c.PollMin))
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 250*time.Millisecond)
	c.HedgeDelay = cmp.Or(c.HedgeDelay, 30*time.Millisecond)
	c.DurableDelay = cmp.Or(c.DurableDelay, time.Second)
	c.DurableConcurrency = cmp.Or(c.DurableConcurrency, 4)
	c.BytesInFlight = cmp.Or(c.BytesInFlight, 256<<20)
	c.Prefetch = cmp.Or(c.Prefetch, 1<<20)
	c.ShardMetrics = cmp.Or(c.ShardMetrics, 64)
	if c.RDMA == (rdma.Config{}) {
		c.RDMA = rdma.DefaultConfig()
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if err := c.validate(); err != nil {
		return c, err
	}
	if c.Server != "" {
		c.Cluster = cluster.Single(c.Server)
	}
	return c, nil
}

// pollsOnly reports whether pages are polled also where a node would tell of news.
func (c Config) pollsOnly() bool { return c.PollMin == c.PollMax }

// pollFloor keeps the poller from taking a whole core.
const pollFloor = 10 * time.Microsecond

// validate is asked after the defaults are set.
func (c Config) validate() error {
	if err := c.RDMA.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	switch {
	case c.Server == "" && c.Cluster == nil && c.Dir == "":
		return fmt.Errorf("%w: neither a server, a cluster nor a durable directory is set", ErrConfig)
	case c.Server != "" && c.Cluster != nil:
		return fmt.Errorf("%w: a server and a cluster are set; a server is a cluster of one node", ErrConfig)
	case c.Server != "" && !isAddress(c.Server):
		return fmt.Errorf("%w: server %q, want host:port or unix:/path", ErrConfig, c.Server)
	case c.Transport < Auto || c.Transport > TCP:
		return fmt.Errorf("%w: transport %d, want Auto, SHM, RDMA or TCP", ErrConfig, int(c.Transport))
	case c.Server == "" && c.Cluster == nil && c.Transport != Auto:
		return fmt.Errorf("%w: transport %v without a server to reach by it", ErrConfig, c.Transport)
	case c.PollMin < pollFloor || c.PollMax < c.PollMin:
		return fmt.Errorf("%w: poll interval %v to %v, want at least %v and a maximum not below the minimum", ErrConfig, c.PollMin, c.PollMax, pollFloor)
	case c.ReadTimeout < 0 || c.HedgeDelay < 0 || c.DurableDelay < 0:
		return fmt.Errorf("%w: read timeout %v, hedge delay %v, durable delay %v; none can be negative", ErrConfig, c.ReadTimeout, c.HedgeDelay, c.DurableDelay)
	case c.DurableConcurrency < 0 || c.DurableBytesPerSecond < 0:
		return fmt.Errorf("%w: %d durable reads at once, %d bytes a second; neither can be negative", ErrConfig, c.DurableConcurrency, c.DurableBytesPerSecond)
	case c.BytesInFlight < 0:
		return fmt.Errorf("%w: %d bytes in flight; it cannot be negative", ErrConfig, c.BytesInFlight)
	case c.Prefetch < 128<<10 || c.Prefetch > 16<<20:
		return fmt.Errorf("%w: prefetch of %d bytes, want 128 KiB to 16 MiB", ErrConfig, c.Prefetch)
	}
	return nil
}

func isAddress(s string) bool {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return path != ""
	}
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != ""
}
