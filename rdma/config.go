package rdma

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// MaxReads bounds the reads of one batch: they are posted in one call.
const MaxReads = ibverbs.MaxReads

// MaxBatchBytes bounds the destination memory of one batch.
const MaxBatchBytes = 1 << 20

// Config has the settings of connections and exports. Start from DefaultConfig:
// in the zero value GIDIndex asks for index 0. Where a comment gives a default,
// zero stands for it.
type Config struct {
	// Device is the name of the RDMA device, "" to choose by the route to the
	// peer (see DeviceFor). An Export uses every usable device when it is "".
	Device string
	// Port is the device's port, from 1. 0: any.
	Port int
	// GIDIndex is the sgid_index to use, -1 to choose (see ChooseGID).
	GIDIndex int
	// Pool shares opened devices between connections and exports. nil: each
	// opens its own.
	Pool *Pool
	// Logger gets choices and losses. nil: none.
	Logger *slog.Logger

	// BufferBytes is the registered memory of one Conn, out of which batches
	// are made. Rounded up to a multiple of 1 MiB; it counts against
	// RLIMIT_MEMLOCK. Default 4 MiB, at most 1 GiB.
	BufferBytes int
	// Depth is the number of READs that one Conn may have outstanding; a Post
	// beyond waits for earlier ones. Default 512, at least MaxReads, at most
	// 16,384 and the device's limit.
	Depth int
	// ReadAtomic is the most READs that the device works on at once for one
	// Conn (max_rd_atomic); the limits of both devices bound it too. Default
	// 16, at most 255.
	ReadAtomic int
	// AckTimeout is how long the device waits for an answer before it tries
	// again, rounded up to 4.096 us x 2^n. Default 67 ms. Together with Retries
	// it is the time until a dead peer is noticed: about AckTimeout x
	// (Retries+1), on some devices four times that. Keep it below the deadlines
	// of requests.
	AckTimeout time.Duration
	// Retries is how often the device tries again. Default 6; 1 to 6. (0 fails
	// for no reason on soft-RoCE, 7 never gives up there.)
	Retries int
	// TrafficClass goes into the packets' IP header: DSCP x 4.
	TrafficClass uint8
	// Spin bounds how long a waiting caller polls before it sleeps; how much of
	// it is used adapts to how long reads take. Default 50 us. Negative: never.
	Spin time.Duration
}

// DefaultConfig chooses everything itself.
func DefaultConfig() Config { return Config{GIDIndex: -1} }

const (
	defaultBufferBytes = 4 << 20
	maxBufferBytes     = 1 << 30
	defaultDepth       = 512
	maxDepth           = 16384
	defaultReadAtomic  = 16
	defaultAckTimeout  = 67 * time.Millisecond
	defaultRetries     = 6
	defaultSpin        = 50 * time.Microsecond

	// rnrRetries bounds tries after "receiver not ready", which a READ never
	// gets. 7 would be for ever.
	rnrRetries = 6
	// hopLimit is the TTL of RoCE v2 packets.
	hopLimit = 64
	// setupTimeout bounds a handshake step whose context has no deadline.
	setupTimeout = 5 * time.Second
)

// withDefaults returns the settings to work with, or what is wrong with them.
func (c Config) withDefaults() (Config, error) {
	if c.BufferBytes == 0 {
		c.BufferBytes = defaultBufferBytes
	}
	if c.Depth == 0 {
		c.Depth = defaultDepth
	}
	if c.ReadAtomic == 0 {
		c.ReadAtomic = defaultReadAtomic
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = defaultAckTimeout
	}
	if c.Retries == 0 {
		c.Retries = defaultRetries
	}
	if c.Spin == 0 {
		c.Spin = defaultSpin
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	c.BufferBytes = (c.BufferBytes + MaxBatchBytes - 1) &^ (MaxBatchBytes - 1)
	return c, nil
}

// Validate says which settings are out of range. Zero is always in range.
func (c Config) Validate() error {
	var errs []error
	check := func(name string, v, low, high int) {
		if v != 0 && (v < low || v > high) {
			errs = append(errs, fmt.Errorf("%s %d is not in [%d, %d]", name, v, low, high))
		}
	}
	check("Port", c.Port, 1, 255)
	check("GIDIndex", c.GIDIndex, -1, 255)
	check("BufferBytes", c.BufferBytes, 1, maxBufferBytes)
	check("Depth", c.Depth, MaxReads, maxDepth)
	check("ReadAtomic", c.ReadAtomic, 1, 255)
	check("Retries", c.Retries, 1, 6)
	if c.AckTimeout < 0 || c.AckTimeout > 10*time.Second {
		errs = append(errs, fmt.Errorf("AckTimeout %v is not in [0, 10s]", c.AckTimeout))
	}
	if c.Spin > 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("Spin %v is over 10ms", c.Spin))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(errs...))
}

// stuckAfter is how long the device may take to complete a READ: all tries at
// four times their timeout (IBA specification 1.4, section 9.9.2.1.3), and a
// second for a busy host. After it the connection counts as lost.
func (c Config) stuckAfter() time.Duration {
	try := ibverbs.AckTimeout(ibverbs.AckExponent(c.AckTimeout))
	return 4*try*time.Duration(c.Retries+1) + time.Second
}
