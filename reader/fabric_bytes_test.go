package reader

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// naive is a consumer that knows lengths as we do, and reads every chunk whole that
// has new bytes, up to its length, a request each: what a chunk store without delta
// reads makes it do.
type naive struct{ bytes, requests uint64 }

func (n *naive) read(from, to uint64) {
	n.requests += layout.Chunk(to-1) - layout.Chunk(from) + 1
	n.bytes += to - from&^(layout.ChunkSize-1)
}

// TestFabricBytesPerUsefulByte: shards of one page grow by records of 200 bytes, each
// published by itself, and a Reader follows each. What the Cluster moves and asks for is
// compared with what it delivers.
//
// A poll that finds news costs one data read a shard, or one more where an extent
// ends; one read of descriptors where a chunk has become complete; one of the page,
// for all shards. Once an extent its place is looked up.
func TestFabricBytesPerUsefulByte(t *testing.T) {
	for _, c := range []struct {
		poll   time.Duration
		every  time.Duration // a record comes to each shard
		shards int
		most   float64 // bytes moved by useful byte, all reads together
	}{
		{time.Millisecond, 200 * time.Microsecond, 1, 1.06}, // 1 MB/s: the entry's 32 bytes are for 940 useful ones
		{time.Millisecond, 50 * time.Microsecond, 1, 1.03},
		{10 * time.Millisecond, 200 * time.Microsecond, 1, 1.03},
		{50 * time.Millisecond, 200 * time.Microsecond, 1, 1.03},
		{10 * time.Millisecond, 200 * time.Microsecond, 8, 1.03},
		{50 * time.Millisecond, 200 * time.Microsecond, 8, 1.03},
	} {
		t.Run(fmt.Sprintf("%v of %d at %v", c.poll, c.shards, c.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { bytesPerUseful(t, c.poll, c.every, c.shards, c.most) })
		})
	}
}

func bytesPerUseful(t *testing.T, poll, every time.Duration, shards int, most float64) {
	const (
		record = 200
		total  = 1 << 20 // of each shard
	)
	f := newFabric(t, 32<<20, 7, faults{})
	var writers []*fabricWriter
	for i := range shards {
		w := newFabricWriter(t, f)
		w.shard.Number = uint32(i)
		w.tail = prefixAt(w.hash(), 0)
		w.append(record)
		w.publish(0)
		writers = append(writers, w)
	}
	c := bareCluster(t, writers[0].store) // all shards are as long at any time
	defer c.Close()
	c.cfg.PollMin, c.cfg.PollMax = poll, poll
	p, err := newPath(f, FromRDMA, f.arena.Epoch(), c.cfg.ReadTimeout)
	if err != nil {
		t.Fatal(err)
	}
	c.only().give(p)
	c.tasks.Go(newPoller(c).run)
	ctx, cancel := context.WithCancel(t.Context())
	var followers sync.WaitGroup
	defer followers.Wait()
	defer cancel()
	var mu sync.Mutex
	var other naive
	for _, w := range writers {
		r, err := c.Reader(ctx, w.shard.String(), Latest())
		if err != nil {
			t.Fatal(err)
		}
		followers.Go(func() {
			defer r.Close()
			from, at := r.Position(), time.Now() // of what a poll has brought: no time passes within it
			for {
				b, err := r.Next(ctx)
				mu.Lock()
				if now := time.Now(); now != at || err != nil {
					if r.Position()-uint64(len(b.Data)) > from {
						other.read(from, r.Position()-uint64(len(b.Data)))
					}
					from, at = r.Position()-uint64(len(b.Data)), now
				}
				mu.Unlock()
				if err != nil {
					return
				}
				if wrongAt(b.Data, b.Position) >= 0 {
					t.Errorf("wrong bytes at %d", b.Position)
				}
			}
		})
	}
	before := c.Stats()
	for writers[0].pos < total {
		<-time.After(every)
		for _, w := range writers {
			w.append(record)
			w.publish(0)
		}
	}
	<-time.After(2 * poll)
	cancel()
	followers.Wait()
	after := c.Stats()
	useful := after.Delivered - before.Delivered
	polls, pages := after.Polls-before.Polls, after.PageReads-before.PageReads
	reads := after.Reads["rdma"] - before.Reads["rdma"]
	requests := after.Requests - before.Requests
	moved := float64(after.Bytes-before.Bytes) / float64(useful)
	kb := float64(useful) / 1000
	t.Logf("report: poll %v, %d shards at %.1f MB/s in records of 200 B: %.4f bytes moved by useful byte (naive %.4f), %.3f requests by useful KB (naive %.3f without its polls), %.3f data reads a shard and poll",
		poll, shards, record/every.Seconds()/1e6, moved, float64(other.bytes)/float64(useful), float64(requests)/kb, float64(other.requests)/kb,
		float64(reads)/float64(polls)/float64(shards))
	if moved > most {
		t.Errorf("%.4f bytes moved by useful byte, want at most %.2f", moved, most)
	}
	if useful < uint64(shards)*(total-record) {
		t.Errorf("%d bytes delivered of %d shards of %d", useful, shards, total)
	}
	if pages > polls+1+polls/20 { // an entry that was read half old, half new is read again
		t.Errorf("%d page reads in %d polls", pages, polls)
	}
	extents := uint64(shards) * (total/layout.ExtentSize + 1)
	if most := uint64(shards)*polls + extents; reads > most {
		t.Errorf("%d data reads in %d polls of %d shards, want at most one each and one an extent more, %d", reads, polls, shards, most)
	}
	if descriptors, chunks := requests-reads-pages, uint64(shards)*(total/layout.ChunkSize+1); descriptors > chunks+3*extents {
		t.Errorf("%d reads beside data and pages, for %d chunks in %d extents", descriptors, chunks, extents)
	}
	if float64(other.bytes)/float64(useful) < moved-0.05 || other.bytes < useful {
		t.Errorf("the naive consumer moves %d bytes for %d: it is not what it says", other.bytes, useful)
	}
}
