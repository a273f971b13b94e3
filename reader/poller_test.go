package reader

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestFabricPollReadsFollowedEntriesOnly: a poll moves the part of a page between
// the first and the last entry that is followed, in one request.
func TestFabricPollReadsFollowedEntriesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 2<<20, 5, faults{})
		w := newFabricWriter(t, f) // shard 3
		w.append(100)
		w.publish(0)
		c := fabricCluster(t, f, w.store)
		defer c.Close()
		polls := func(shards ...string) (requests, bytes uint64) {
			for _, s := range shards {
				r, err := c.Reader(t.Context(), s, Latest())
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
			}
			<-time.After(time.Second) // places are known, the interval is at its longest
			before := c.Stats()
			<-time.After(10 * time.Second)
			after := c.Stats()
			return after.Requests - before.Requests, after.Bytes - before.Bytes
		}
		requests, bytes := polls("fabric/3")
		if requests == 0 || bytes != requests*layout.EntrySize {
			t.Fatalf("one shard: %d requests moved %d bytes, want %d each", requests, bytes, layout.EntrySize)
		}
		requests, bytes = polls("fabric/3", "fabric/5", "fabric/4")
		if requests == 0 || bytes != requests*3*layout.EntrySize {
			t.Fatalf("three neighbours: %d requests moved %d bytes, want %d each", requests, bytes, 3*layout.EntrySize)
		}
	})
}
