package reader

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

func (t Transport) String() string { return [...]string{"auto", "shm", "rdma", "tcp"}[t] }

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

func (s Source) String() string { return [...]string{"shm", "rdma", "tcp", "durable"}[s] }

// Config says which node to follow and how. The zero value of each field but
// Server and Dir means its default.
type Config struct {
	// Server is the node's TCP address, host:port. Empty only with Dir: then
	// every byte comes from the durable store.
	Server string
	// Dir is the durable directory, if this host can open it. Empty: durable
	// reads go through the node, and stop while it is away.
	Dir string
	// Transport limits the memory transports. Auto by default.
	Transport Transport
	// RDMA picks the device and its limits. Its zero value means
	// rdma.DefaultConfig(); start from that to change a part.
	RDMA rdma.Config

	// PollMin and PollMax bound the interval between polls of the length pages:
	// PollMin while bytes flow, PollMax when idle. 1 ms and 100 ms.
	PollMin, PollMax time.Duration
	// ReadTimeout bounds one memory read, after which the next transport is
	// tried. 250 ms.
	ReadTimeout time.Duration
	// DurableDelay is how long bytes that exist may be missing from the cache
	// before the durable store is asked for them. 1 s. Evicted bytes do not wait.
	DurableDelay time.Duration
	// DurableConcurrency bounds the durable reads in flight in this process. 4.
	DurableConcurrency int
	// DurableBytesPerSecond caps the durable reads of this process. 0: no cap.
	DurableBytesPerSecond int64
	// Prefetch bounds the bytes that one Reader holds, delivered or read ahead,
	// 128 KiB to 16 MiB. 1 MiB.
	Prefetch int

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: no metrics
}

func (c Config) withDefaults() (Config, error) {
	c.PollMin = cmp.Or(c.PollMin, time.Millisecond)
	c.PollMax = cmp.Or(c.PollMax, max(100*time.Millisecond, c.PollMin))
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 250*time.Millisecond)
	c.DurableDelay = cmp.Or(c.DurableDelay, time.Second)
	c.DurableConcurrency = cmp.Or(c.DurableConcurrency, 4)
	c.Prefetch = cmp.Or(c.Prefetch, 1<<20)
	if c.RDMA == (rdma.Config{}) {
		c.RDMA = rdma.DefaultConfig()
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	switch {
	case c.Server == "" && c.Dir == "":
		return c, fmt.Errorf("%w: neither a server nor a durable directory is set", ErrConfig)
	case c.Transport < Auto || c.Transport > TCP:
		return c, fmt.Errorf("%w: transport %d", ErrConfig, int(c.Transport))
	case c.PollMin < 0 || c.PollMax < c.PollMin:
		return c, fmt.Errorf("%w: poll interval %v to %v; the maximum must not be below the minimum", ErrConfig, c.PollMin, c.PollMax)
	case c.ReadTimeout < 0 || c.DurableDelay < 0 || c.DurableConcurrency < 0 || c.DurableBytesPerSecond < 0:
		return c, fmt.Errorf("%w: a timeout or limit is negative", ErrConfig)
	case c.Prefetch < 128<<10 || c.Prefetch > 16<<20:
		return c, fmt.Errorf("%w: prefetch of %d bytes, want 128 KiB to 16 MiB", ErrConfig, c.Prefetch)
	}
	return c, nil
}
