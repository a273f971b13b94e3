package doctor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// batch is what the batches of all transports can do.
type batch interface {
	Add(off uint64, n int) []byte
	Post(deadline time.Time) error
	Wait() error
	Reset()
	Release()
}

// way is how to read a node's memory.
type way struct {
	transport string
	size      uint64 // of the memory
	batch     func(bytes int) (batch, error)
}

// Measure is what a transport gave. Its JSON keys are an interface.
type Measure struct {
	Transport string  `json:"transport"`
	Reads     int     `json:"reads"`  // of 4 KiB, one at a time
	P50       float64 `json:"p50_us"` // microseconds, as P99
	P99       float64 `json:"p99_us"`
	Batched   int     `json:"batched_reads"` // of 4 KiB, 64 at a time
	Rate      float64 `json:"bytes_per_second"`
}

const (
	// readTimeout bounds each read of a peer.
	readTimeout = 5 * time.Second
	// atOnce is how many reads a batch has when the rate is measured.
	atOnce = 64
	// spread bounds how much of the peer's memory is read, and so what the caches of
	// both ends make of it.
	spread = 64 << 20
	// maxSamples bounds the latencies that are kept.
	maxSamples = 200_000
)

// read reads n bytes, and returns a copy.
func (p way) read(off uint64, n int) ([]byte, error) {
	b, err := p.batch(n)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	got := b.Add(off, n)
	if got == nil {
		return nil, fmt.Errorf("%d bytes at %d are not in the node's memory of %d", n, off, p.size)
	}
	if err := errors.Join(b.Post(time.Now().Add(readTimeout)), b.Wait()); err != nil {
		return nil, err
	}
	return slices.Clone(got), nil
}

// measure reads chunks for a while: one at a time, and then many.
func (p way) measure(d time.Duration) (Measure, error) {
	m := Measure{Transport: p.transport}
	chunks := min(p.size, spread) / chunk
	if chunks == 0 {
		return m, fmt.Errorf("the node's memory of %d bytes has no room for a chunk", p.size)
	}
	b, err := p.batch(atOnce * chunk)
	if err != nil {
		return m, err
	}
	defer b.Release()
	once := func(n int) error {
		b.Reset()
		for range n {
			if b.Add(rand.Uint64N(chunks)*chunk, chunk) == nil {
				return errors.New("no room in the batch")
			}
		}
		if err := b.Post(time.Now().Add(readTimeout)); err != nil {
			return err
		}
		return b.Wait()
	}
	var took []time.Duration
	for end := time.Now().Add(d / 2); len(took) < maxSamples; {
		begin := time.Now()
		if begin.After(end) && len(took) > 0 {
			break
		}
		if err := once(1); err != nil {
			return m, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	us := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Nanoseconds()) / 1e3
	}
	m.Reads, m.P50, m.P99 = len(took), us(0.5), us(0.99)

	begin := time.Now()
	for end := begin.Add(d / 2); m.Batched == 0 || time.Now().Before(end); m.Batched += atOnce {
		if err := once(atOnce); err != nil {
			return m, err
		}
	}
	m.Rate = float64(m.Batched) * chunk / time.Since(begin).Seconds()
	return m, nil
}

// String is the measure for people.
func (m Measure) String() string {
	return fmt.Sprintf("4 KiB in %.1f us (p50), %.1f us (p99); %.0f MB/s with %d at once", m.P50, m.P99, m.Rate/1e6, atOnce)
}
