package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/reader"
)

// crowdSpec is what a process of many readers of one shard is told.
type crowdSpec struct {
	Dir       string
	Cluster   cluster.Description
	Shard     layout.Shard
	Readers   int
	Transport reader.Transport
}

// crowdResult is what it says at the end.
type crowdResult struct {
	Checked     uint64
	Wrong, Gaps int
	Errors      []string
	Least, Most uint64 // positions, when it was told to end
	// Hungriest is the longest time that a reader got nothing.
	Hungriest time.Duration
	Durable   uint64 // bytes from the store
}

// beCrowd opens all readers at the shard's end, says so, reads until its input
// ends, and says what it has seen.
func beCrowd(spec crowdSpec) error {
	source, err := cluster.NewFixed(spec.Cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := reader.Open(ctx, reader.Config{Cluster: source, Dir: spec.Dir, Transport: spec.Transport, DurableBytesPerSecond: durableRate, Logger: logger()})
	if err != nil {
		return err
	}
	defer c.Close()
	var result crowdResult
	var mu sync.Mutex
	var hungriest atomic.Int64
	var all sync.WaitGroup
	var readers []*reader.Reader
	for range spec.Readers {
		r, err := c.Reader(ctx, spec.Shard.String(), reader.Latest())
		if err != nil {
			return err
		}
		defer r.Close()
		readers = append(readers, r)
		all.Go(func() {
			var room []byte
			pos, last := r.Position(), time.Now()
			for {
				b, err := r.Next(ctx)
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				switch {
				case err != nil:
					result.Errors = append(result.Errors, err.Error())
				case b.Position != pos:
					result.Gaps++
				}
				mu.Unlock()
				if err != nil {
					return
				}
				bad := wrongAt(b.Data, spec.Shard, b.Position, &room)
				now := time.Now()
				for d := int64(now.Sub(last)); ; {
					if h := hungriest.Load(); d <= h || hungriest.CompareAndSwap(h, d) {
						break
					}
				}
				pos, last = b.Position+uint64(len(b.Data)), now
				mu.Lock()
				if result.Checked += uint64(len(b.Data)); bad >= 0 {
					result.Wrong++
				}
				mu.Unlock()
			}
		})
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	for i, r := range readers {
		if result.Most = max(result.Most, r.Position()); i == 0 || r.Position() < result.Least {
			result.Least = r.Position()
		}
	}
	cancel()
	all.Wait()
	result.Hungriest = time.Duration(hungriest.Load())
	result.Durable = c.Stats().DeliveredBy["durable"]
	return json.NewEncoder(os.Stdout).Encode(result)
}

// TestRealChaosCrowd: 400 readers come to one shard at once while a producer
// appends, over shared memory and then over tcp. They cost the producer less than
// twice its p99, and each of them keeps up.
func TestRealChaosCrowd(t *testing.T) {
	s := newSite(t, siteConfig{full: 3, shards: 1})
	f := s.feeds[0]
	f.pause.Store(int64(10 * time.Millisecond))
	f.most.Store(2000)
	s.pass(time.Second)
	for _, transport := range []reader.Transport{reader.SHM, reader.TCP} {
		for round := 1; ; round++ {
			began := time.Now()
			s.pass(2 * time.Second)
			alone := f.between(began, time.Now())
			if s.crowd(transport, alone) {
				break
			}
			if round == rounds {
				t.Errorf("over %v, in none of %d rounds append p99 was within twice of before and every reader kept up", transport, rounds)
				break
			}
		}
	}
	s.finish("a crowd of readers")
}

// crowd brings readers to the site's shard, and holds what appends take meanwhile
// against what they took without them: true when that is about the same,
// and no reader starves.
func (s *site) crowd(transport reader.Transport, alone []time.Duration) bool {
	const readers = 400
	t, f := s.t, s.feeds[0]
	// Readers have processors of their own where it matters: what they cost the
	// producer is what they cost the nodes, not the processors that it runs on.
	p, err := start("crowd", crowdSpec{Dir: s.dir, Cluster: s.described(s.own), Shard: f.shard, Readers: readers, Transport: transport}, "nice", "-n", "19")
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if line, err := p.line(); line != "ready" {
		t.Fatalf("the crowd said %q, %v", line, err)
	}
	began := time.Now()
	s.pass(3 * time.Second)
	during := f.between(began, time.Now())
	acked := f.acked.Load()
	p.in.Close()
	var got crowdResult
	if err := json.NewDecoder(p.out).Decode(&got); err != nil {
		t.Fatal(err)
	}
	p.wait()
	p99, p99During := quantile(alone, 0.99), quantile(during, 0.99)
	t.Logf("report: %d readers at once on one shard over %v: append p50 %v -> %v, p99 %v -> %v (%d and %d appends); hungriest reader %v; %.1f MB checked, %d bytes from the store",
		readers, transport, quantile(alone, 0.5), quantile(during, 0.5), p99, p99During, len(alone), len(during), got.Hungriest, float64(got.Checked)/1e6, got.Durable)
	if len(got.Errors) > 0 || got.Wrong > 0 || got.Gaps > 0 {
		t.Errorf("%d wrong batches, %d gaps, errors %q", got.Wrong, got.Gaps, got.Errors)
	}
	if behind := acked - min(got.Least, acked); behind > 200_000 || got.Hungriest > 5*time.Second {
		t.Logf("the last reader is %d bytes behind, the hungriest got nothing for %v", behind, got.Hungriest)
		return false
	}
	return asFast(p99, p99During)
}
