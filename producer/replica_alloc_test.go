// The race detector allocates on its own account.
//go:build !race

package producer

import (
	"math"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// In the steady state a put to one local and two remote replicas allocates
// nothing, and a publication nothing but what the remote nodes of this test take
// for its shard's name. Of pools that a collection has emptied there is a little.
func TestRealReplicasHardlyAllocate(t *testing.T) {
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
	length := uint64(0)
	publish := func() {
		length++
		if err := c.Publish(layout.Publication{Shard: testShard, Entry: layout.Entry{Length: length, Incarnation: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	puts, publishes := least(put), least(publish)
	t.Logf("report: replicas: %.1f allocations for 16 puts to 1 local and 2 remote nodes, %.1f for a publication (the nodes' own included)", puts, publishes)
	if puts >= 1 || publishes >= 2*2+1 {
		t.Errorf("%v allocations for 16 puts, %v for a publication", puts, publishes)
	}
}

// least is what f allocates when no replica is late: one that is, on a busy host,
// has more rounds than usual on their way, which are made then.
func least(f func()) float64 {
	least := math.Inf(1)
	for range 5 {
		for range 200 {
			f()
		}
		least = min(least, testing.AllocsPerRun(200, f))
	}
	return least
}
