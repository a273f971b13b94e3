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
// appends. They cost the producer less than twice its p99, and each of them keeps
// up.
func TestRealChaosCrowd(t *testing.T) {
	const readers = 400
	s := newSite(t, siteConfig{full: 3, shards: 1})
	f := s.feeds[0]
	f.pause.Store(int64(10 * time.Millisecond))
	f.most.Store(2000)
	s.pass(time.Second)
	began := time.Now()
	s.pass(3 * time.Second)
	before := f.between(began, time.Now())
	direct := s.described(s.own)
	// Readers have processors of their own where it matters: what they cost the
	// producer is what they cost the nodes, not the processors that it runs on.
	p, err := start("crowd", crowdSpec{Dir: s.dir, Cluster: direct, Shard: f.shard, Readers: readers}, "nice", "-n", "19")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.line(); line != "ready" {
		p.kill()
		t.Fatalf("the crowd said %q, %v", line, err)
	}
	began = time.Now()
	s.pass(4 * time.Second)
	during := f.between(began, time.Now())
	acked := f.acked.Load()
	p.in.Close()
	var got crowdResult
	if err := json.NewDecoder(p.out).Decode(&got); err != nil {
		t.Fatal(err)
	}
	p.wait()
	p99, p99During := quantile(before, 0.99), quantile(during, 0.99)
	t.Logf("report: %d readers at once on one shard: append p50 %v -> %v, p99 %v -> %v (%d and %d appends); hungriest reader %v; %.1f MB checked, %d bytes from the store",
		readers, quantile(before, 0.5), quantile(during, 0.5), p99, p99During, len(before), len(during), got.Hungriest, float64(got.Checked)/1e6, got.Durable)
	if len(got.Errors) > 0 || got.Wrong > 0 || got.Gaps > 0 {
		t.Errorf("%d wrong batches, %d gaps, errors %q", got.Wrong, got.Gaps, got.Errors)
	}
	// Two processors run the producer, three nodes and 400 readers: below this the
	// scheduler is what is measured.
	const floor = 20 * time.Millisecond
	if p99During > max(2*p99, floor) {
		t.Errorf("append p99 grew from %v to %v, want less than twice", p99, p99During)
	}
	if behind := acked - min(got.Least, acked); behind > 200_000 || got.Hungriest > 3*time.Second {
		t.Errorf("the last reader is %d bytes behind, the hungriest got nothing for %v", behind, got.Hungriest)
	}
	s.finish("a crowd of readers")
}
