package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// rxe is the topology of the rxe ring: two soft-RoCE devices on a veth pair.
type rxe struct{ dev, addr [2]string }

func rxeRing(t *testing.T) *rxe {
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("RMATAIL_RXE is not set: no soft-RoCE devices here (scripts/test --ring rxe boots a guest that has them)")
	}
	x := &rxe{}
	for i := range 2 {
		for to, name := range map[*string]string{&x.dev[i]: "DEV", &x.addr[i]: "ADDR"} {
			key := fmt.Sprintf("RMATAIL_RXE_%s%d", name, i)
			if *to = os.Getenv(key); *to == "" {
				t.Fatalf("RMATAIL_RXE is set but %s is not", key)
			}
		}
	}
	return x
}

// TestRxeChaos: readers over RDMA READ lose one node of a key, then two, and have
// them back; every byte is right and the cache serves again.
func TestRxeChaos(t *testing.T) {
	s := newSite(t, siteConfig{full: 3, arena: 8 << 20, shards: 1, rxe: rxeRing(t)})
	f := s.feeds[0]
	f.pause.Store(int64(50 * time.Millisecond)) // an emulated processor
	f.most.Store(5000)
	eventually(t, 60*time.Second, "bytes over rdma", func() bool {
		s.check()
		return s.direct.Stats().DeliveredBy["rdma"] > 20_000
	})
	lost := s.holders(f)[:2]
	for _, i := range lost {
		s.nodes[i].kill()
		s.fault("node killed")
		s.pass(5 * time.Second)
	}
	before := s.direct.Stats().DeliveredBy["rdma"]
	s.pass(3 * time.Second)
	if s.direct.Stats().DeliveredBy["rdma"] == before {
		t.Errorf("nothing comes over rdma from the node that is left: %s", s.state())
	}
	for _, i := range lost {
		s.nodes[i].start()
	}
	back := s.back(time.Now(), 6*backLimit) // as the guest is emulated
	t.Logf("report: rdma: the last byte of the store came %v after the nodes' return", back)
	s.appendsSucceeded()
	s.finish("two of three nodes lost over rdma, and back")
}
