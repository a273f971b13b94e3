package rdma

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Path is what the two ends of a connection agreed on.
type Path struct {
	Device     string
	Port       int
	GIDIndex   int
	GID        GID
	GIDType    GIDType
	PeerGID    GID
	Peer       netip.Addr // of the bootstrap connection
	QPN        uint32
	PeerQPN    uint32
	MTU        int // bytes of one packet's payload
	Reads      int // READs in flight on the wire
	AckTimeout time.Duration
	Retries    int
	Generation uint64 // of the peer's registration
	Length     uint64 // of the peer's memory
	Why        string // how the device was found
}

// LogValue has the fields that tell one path from another.
func (p Path) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("device", p.Device), slog.Int("port", p.Port),
		slog.Int("gid_index", p.GIDIndex), slog.String("gid", p.GID.String()), slog.String("gid_type", p.GIDType.String()),
		slog.String("peer_gid", p.PeerGID.String()), slog.Any("qp", p.QPN), slog.Any("peer_qp", p.PeerQPN),
		slog.Int("mtu", p.MTU), slog.Int("reads_in_flight", p.Reads), slog.Uint64("generation", p.Generation),
		slog.String("why", p.Why),
	)
}

// Conn reads the memory of one peer. All methods may be called at once, by many
// goroutines, each with its own Batch.
//
// A Conn does not heal: when Lost is closed, Prepare the next one. It notices a
// dead peer only while it reads; who needs to know earlier watches the bootstrap
// connection.
type Conn struct {
	// Path is set before anybody has the Conn, and never changes.
	Path Path

	e     *engine
	watch *watch
	dev   *openDevice
	log   *slog.Logger
	once  sync.Once
	err   error
}

// Lost is closed when the connection is lost or Close was called.
func (c *Conn) Lost() <-chan struct{} { return c.e.lost }

// Err returns the root cause after Lost is closed, ErrClosed for a Close, and nil
// before.
func (c *Conn) Err() error { return c.e.rootCause() }

// Stats returns the counters.
func (c *Conn) Stats() Stats { return c.e.stats() }

// Close ends the connection: what is in flight settles with an error, and the
// queue pair, the completion queue and the memory registration are gone when it
// returns, after drainTime (2 s) at most for a device that does not flush.
// Slices of batches that were read before stay readable until their Release.
// Closing again returns the same error. A connection that was lost needs a Close
// too.
func (c *Conn) Close() error {
	c.once.Do(func() {
		c.err = c.e.close()
		c.watch.stop()
		c.dev.release()
	})
	return c.err
}
