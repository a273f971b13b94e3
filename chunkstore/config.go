package chunkstore

import (
	"fmt"
	"time"
)

// HugePages says which pages back the arena.
type HugePages uint8

// Kinds of pages.
const (
	// HugePagesOff takes pages of the base size: the default.
	HugePagesOff HugePages = iota
	// HugePagesOn takes reserved huge pages of the system's default size: fewer
	// TLB misses, and fewer entries in a NIC's translation table. New fails with
	// ErrHugePages when too few are reserved. Linux only.
	HugePagesOn
)

// MLock says whether the arena is locked in memory.
type MLock uint8

// Ways of locking.
const (
	// MLockOff leaves the pages to the operating system: the default. Registering
	// the arena with a NIC pins them anyway.
	MLockOff MLock = iota
	// MLockOn locks them; New fails with ErrMemlock when the limit is too low.
	MLockOn
)

// Evicted says what becomes of the bytes of evicted keys.
type Evicted uint8

// Fates of evicted bytes.
const (
	// KeepEvicted leaves them, unreachable, until their way is reused: the default.
	KeepEvicted Evicted = iota
	// PoisonEvicted fills those of extents with 0xDB, so that a read through a stale
	// identity shows in a test. (Length pages are always zeroed.)
	PoisonEvicted
)

// maxTTL keeps sums of a set's times to live within a time.Duration.
const maxTTL = 366 * 24 * time.Hour

// Config is how an arena is made. The zero value is usable.
type Config struct {
	// Bytes is the upper bound of the arena's size: the largest geometry that fits
	// is taken. 0: 64 MiB. The smallest usable is about 1.1 MiB. Huge pages round
	// the memory, not the arena, up to whole pages.
	Bytes     uint64
	HugePages HugePages
	MLock     MLock
	// TTL is how long an extent lives after its last put, at most 366 days. 0: 60 s.
	TTL time.Duration
	// PageTTL is how long a length page lives after its last publish, at most 366
	// days. 0: 24 h.
	PageTTL time.Duration
	// Leases is how many writers' leases are remembered. 0: 65,536, about 16 MiB.
	Leases int
	// LeaseTTL is the time to live of a lease that is known from a publication
	// alone, at most 366 days. 0: 10 s.
	LeaseTTL time.Duration
	// EvictFrom is how full a table must be, as a fraction of its ways, for Evict
	// to drop keys past their time. 0: 0.80.
	EvictFrom float64
	// Clock gives the current time; ages are differences of its values. nil: time.Now.
	Clock func() time.Time
	// Epoch names this arena to consumers: another epoch is another arena. 0: random.
	Epoch uint64
	// Published is told of each change of a length page, its index and that of the
	// entry (negative: all of them), after it and under the page's lock: it must be quick,
	// and call no method of the arena. nil: nobody is.
	Published func(page uint32, entry int)
	// Evicted is for tests.
	Evicted Evicted
}

// Validate reports a setting that is out of bounds. Errors match ErrConfig.
func (c Config) Validate() error {
	switch {
	case c.TTL < 0 || c.TTL > maxTTL || c.PageTTL < 0 || c.PageTTL > maxTTL:
		return fmt.Errorf("%w: time to live %v of extents, %v of length pages; want 0 (default) to %v", ErrConfig, c.TTL, c.PageTTL, maxTTL)
	case c.Leases < 0 || c.LeaseTTL < 0 || c.LeaseTTL > maxTTL:
		return fmt.Errorf("%w: %d leases, time to live %v; want 0 (defaults) or more", ErrConfig, c.Leases, c.LeaseTTL)
	case !(c.EvictFrom >= 0 && c.EvictFrom <= 1): // NaN too
		return fmt.Errorf("%w: eviction from %g of the ways; want 0 (default) to 1", ErrConfig, c.EvictFrom)
	case c.HugePages > HugePagesOn || c.MLock > MLockOn || c.Evicted > PoisonEvicted:
		return fmt.Errorf("%w: unknown option %d, %d or %d", ErrConfig, c.HugePages, c.MLock, c.Evicted)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Bytes == 0 {
		c.Bytes = 64 << 20
	}
	if c.TTL == 0 {
		c.TTL = 60 * time.Second
	}
	if c.PageTTL == 0 {
		c.PageTTL = 24 * time.Hour
	}
	if c.Leases == 0 {
		c.Leases = 65536
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 10 * time.Second
	}
	if c.EvictFrom == 0 {
		c.EvictFrom = 0.80
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}
