// The race detector allocates on its own account.
//go:build !race

package producer

import (
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// In the steady state a put to one local and two remote replicas allocates
// nothing, and a publication next to nothing.
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
