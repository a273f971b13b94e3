package producer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// socketSite is a cluster of one local node and two behind loopback sockets.
func socketSite(t testing.TB) *ReplicaCache {
	d := cluster.Description{Store: cluster.Store{Dir: "/store"}}
	local := map[string]LocalNode{}
	for i := range 3 {
		m := fakeMember(i + 1)
		n := newFakeNode(t, m.Name, time.Minute)
		if i == 0 {
			local[m.Name] = n
		} else {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close(); n.cut() })
			m.Addr = l.Addr().String()
			go func() {
				for {
					nc, err := l.Accept()
					if err != nil {
						return
					}
					n.set(func() { n.mu.conns[nc] = true })
					go n.serve(nc)
				}
			}()
		}
		d.Nodes = append(d.Nodes, m)
	}
	source, err := cluster.NewFixed(d)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewReplicaCache(ReplicaConfig{Source: source, Local: local, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// deltas are the puts of a shard that grows by n bytes a round, and starts anew
// at the end of its second chunk, so that memory is all that is measured.
type deltas struct {
	hash  layout.Hash
	bytes []byte
	n     int
	at    int
	crc   uint32
	puts  []layout.Put
	errs  []error
}

func newDeltas(n int) *deltas {
	return &deltas{hash: testShard.Hash(1), bytes: pattern(0, layout.ChunkSize), n: n}
}

// next is a delta of the tail chunk, and n-1 whole chunks if n is above one.
func (d *deltas) next() ([]layout.Put, []error) {
	if d.at+64 > layout.ChunkSize || d.at == 0 {
		d.at, d.crc = 0, layout.SeedCRC(d.hash, 0)
	}
	from := d.at
	d.at += 64
	d.crc = layout.ExtendCRC(d.crc, d.bytes[from:d.at])
	d.puts = append(d.puts[:0], layout.Put{Shard: d.hash, Chunk: 0, From: from, CRC: d.crc, Data: d.bytes[from:d.at], Whole: d.bytes[:d.at]})
	for i := 1; i < d.n; i++ {
		chunk := uint64(i)
		d.puts = append(d.puts, layout.Put{Shard: d.hash, Chunk: chunk, CRC: layout.ExtendCRC(layout.SeedCRC(d.hash, chunk), d.bytes), Data: d.bytes})
	}
	if cap(d.errs) < d.n {
		d.errs = make([]error, d.n)
	}
	d.errs = d.errs[:d.n]
	clear(d.errs)
	return d.puts, d.errs
}

// One local and two remote replicas: what a round of puts costs, and a publication.
func BenchmarkReplicas(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("puts=%d", n), func(b *testing.B) {
			c, d := socketSite(b), newDeltas(n)
			b.ReportAllocs()
			b.SetBytes(int64(64 + (n-1)*layout.ChunkSize))
			for b.Loop() {
				puts, errs := d.next()
				c.Put(testShard, puts, errs)
				if err := errors.Join(errs...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("publish", func(b *testing.B) {
		c := socketSite(b)
		b.ReportAllocs()
		length := uint64(0)
		for b.Loop() {
			length++
			if err := c.Publish(layout.Publication{Shard: testShard, Entry: layout.Entry{Length: length, Incarnation: 1}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		c := socketSite(b)
		a, err := Open(b.Context(), Config{Shard: testShard, Log: &nullLog{info: durable.Info{Incarnation: 1}}, Cache: c})
		if err != nil {
			b.Fatal(err)
		}
		defer a.Close(context.Background())
		record := pattern(0, 100)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := appendOne(context.Background(), a, record); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// In the steady state a put to one local and two remote replicas allocates
// nothing, and a publication next to nothing.
func TestRealReplicasHardlyAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c, d := socketSite(t), newDeltas(16)
	put := func() {
		puts, errs := d.next()
		c.Put(testShard, puts, errs)
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 200 {
		put()
	}
	puts := testing.AllocsPerRun(200, put)
	length := uint64(0)
	publish := func() {
		length++
		if err := c.Publish(layout.Publication{Shard: testShard, Entry: layout.Entry{Length: length, Incarnation: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		publish()
	}
	publishes := testing.AllocsPerRun(200, publish)
	t.Logf("report: replicas: %.1f allocations for 16 puts to 1 local and 2 remote nodes, %.1f for a publication (the nodes' own included)", puts, publishes)
	if puts > 16*2*2 || publishes > 20 {
		t.Errorf("%v allocations for 16 puts, %v for a publication", puts, publishes)
	}
}
