package reader

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/internal/spread"
	"github.com/rmatail/rmatail/rdma"
)

// errBatchRoom is returned when a transport's batch cannot hold even one read
// that was planned for it: a limit of the transport is below what a flight needs.
var errBatchRoom = errors.New("batch has no room for a single read")

// path is one live memory transport to one start of a node. It is replaced, not
// repaired.
type path struct {
	memory
	peer     *peer
	nic      *nic // of what it goes over; nil: no bound
	source   Source
	epoch    uint64
	geometry layout.Geometry
	// restUntil is before when the path is not used, because reads over it failed;
	// nil: none did. The rest grows with each failure in a row, and is measured by
	// the monotonic clock: the wall clock may be set back.
	restUntil atomic.Pointer[time.Time]
	failures  atomic.Int32
	// clock is what times its reads; nil: time.Now.
	clock func() time.Time
	// born is the origin of the latencies' clock.
	born  time.Time
	times *spread.Histogram // of its source; nil: not counted
	wakes bool              // its batches may wait at the node for news
	// seconds is how many of 1,024 extents were in their second sets lately.
	seconds atomic.Int32
	small   latency // of reads that are answered in few packets
	large   latency
}

// newPath reads and checks the arena header over a new connection.
func newPath(m memory, from Source, epoch uint64, timeout time.Duration) (*path, error) {
	b, err := m.newBatch(layout.HeaderSize)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	p := b.Add(0, layout.HeaderSize)
	if p == nil {
		return nil, errBatchRoom
	}
	if err := settle(b, time.Now().Add(timeout)); err != nil {
		return nil, fmt.Errorf("arena header: %w", err)
	}
	h, err := layout.ParseHeader(p)
	if err != nil {
		return nil, err
	}
	if h.Epoch != epoch {
		return nil, fmt.Errorf("%w: epoch %x in memory, %x in the handshake: the node restarted meanwhile", layout.ErrForeign, h.Epoch, epoch)
	}
	w, wakes := b.(waker)
	return &path{memory: m, source: from, epoch: epoch, geometry: h.Geometry, born: time.Now(), wakes: wakes && w.Wakes()}, nil
}

func (p *path) now() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return time.Now()
}

// latencyOf returns the average that reads of so many bytes belong to.
func (p *path) latencyOf(size int) *latency {
	if size <= smallFlight {
		return &p.small
	}
	return &p.large
}

// took notes that a read of so many bytes was posted at a time, has been waited for
// since another, and was found answered now. One that was waited for little of its
// time had been answered long before, perhaps: that only says that reads take no
// longer.
func (p *path) took(now time.Time, size int, posted, since time.Time) {
	d := now.Sub(posted)
	l := p.latencyOf(size)
	waited := 4*now.Sub(since) >= d
	if waited && p.times != nil {
		p.times.Add(d)
	}
	if !waited && d > l.estimate(now.Sub(p.born)) {
		return
	}
	l.took(now.Sub(p.born), d)
}

// expect returns how long a read of so many bytes may take.
func (p *path) expect(now time.Time, size int) time.Duration {
	return p.latencyOf(size).estimate(now.Sub(p.born))
}

func (p *path) up(now time.Time) bool {
	select {
	case <-p.Lost():
		return false
	default:
		return !p.rests(now)
	}
}

func (p *path) rests(now time.Time) bool {
	until := p.restUntil.Load()
	return until != nil && now.Before(*until)
}

const (
	pathRestMin = 50 * time.Millisecond
	pathRestMax = 2 * time.Second
)

// failed rests the path and says why the read failed. Many reads that one event
// made fail count as one.
func (p *path) failed(now time.Time, err error) reason {
	if !p.rests(now) {
		n := min(p.failures.Add(1), 8)
		rest := min(pathRestMin<<(n-1), pathRestMax)
		until := now.Add(rest)
		p.restUntil.Store(&until)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return reasonDeadline
	}
	return reasonTransport
}

// flightBytes is how much one flight reads of a backlog. What comes over a
// connection wants much in flight; what is copied by this CPU is best copied and
// checked while it is in the cache.
func (p *path) flightBytes(prefetch int) int {
	if p.source == FromSHM {
		return layout.ExtentSize
	}
	// Two are in flight, each in a batch of a power of two bytes.
	return (min(prefetch/2, maxSpans*layout.ExtentSize) - flightSlack) &^ (layout.ChunkSize - 1)
}

// bothSets is from how many of 1,024 extents in their second sets on both are read.
const bothSets = 128

// foundIn notes in which of its two candidate sets an extent was.
func (p *path) foundIn(set int) {
	share := p.seconds.Load()
	if next := share + (int32(set)<<10-share)/8; next != share {
		p.seconds.Store(next)
	}
}

// mostlyFirst reports whether it is worth while to look for an extent in its first set
// alone: one read less for most, another round trip for the others. Nodes that are
// not nearly full prefer the first one.
func (p *path) mostlyFirst() bool { return p.seconds.Load() <= bothSets }

func (p *path) worked() {
	if p.failures.Load() != 0 {
		p.failures.Store(0)
	}
}

// handleStale reports whether an rdma path ended because the node's memory
// handle is no longer the one it gave out: a new handshake gets the new one.
func handleStale(err error) bool { return rdma.Decide(err) == rdma.StaleHandle }
