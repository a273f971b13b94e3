package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// chance is a random run: its seed decides which fault comes when, and for how long.
type chance struct {
	*site
	rng *rand.Rand
	// ends undo what goes on at present, by node.
	ends map[int]func()
	out  int // nodes that are not of the cluster at present
}

// TestRealChaosRandom breaks things at random: RMATAIL_CHAOS_FOR (6 s) long, by
// RMATAIL_CHAOS_SEED (random).
func TestRealChaosRandom(t *testing.T) {
	long, seed := 6*time.Second, rand.Uint64()>>1
	var err error
	if s := os.Getenv("RMATAIL_CHAOS_FOR"); s != "" {
		if long, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("RMATAIL_CHAOS_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("report: random chaos for %v: RMATAIL_CHAOS_SEED=%d", long, seed)
	c := &chance{site: newSite(t, siteConfig{full: 5, partial: 1, shards: 3, seed: seed}), rng: rand.New(rand.NewPCG(seed, 31)), ends: map[int]func(){}}
	c.wanderers()
	c.site.pass(time.Second)
	for end := time.Now().Add(long); time.Now().Before(end); {
		c.event()
		c.site.pass(time.Duration(50+c.rng.IntN(900)) * time.Millisecond)
		if c.rng.IntN(12) == 0 { // now and then everything is well
			c.calm()
			c.back(time.Now(), backLimit)
			if _, err := c.store.Retain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.calm()
	back := c.back(time.Now(), backLimit)
	c.appendsSucceeded()
	c.finish(fmt.Sprintf("random, seed %d; back on the cache after %v", seed, back.Round(time.Millisecond)))
}

// event begins trouble at a node, or ends it.
func (c *chance) event() {
	i := c.rng.IntN(len(c.nodes))
	if end := c.ends[i]; end != nil {
		end()
		delete(c.ends, i)
		return
	}
	n := c.nodes[i]
	begin := func(kind string, end func()) {
		c.fault(kind)
		c.ends[i] = end
	}
	both := func(l link) {
		c.write[i].set(l)
		c.read[i].set(l)
	}
	switch c.rng.IntN(12) {
	case 0, 1:
		n.kill()
		begin("kill", n.start)
	case 2:
		n.freeze()
		begin("freeze", n.thaw)
	case 3:
		l := link{delay: time.Duration(1+c.rng.IntN(150)) * time.Millisecond}
		both(l)
		begin("delay", func() { both(link{}) })
	case 4:
		l := link{loss: 0.001 + 0.05*c.rng.Float64()}
		both(l)
		begin("loss", func() { both(link{}) })
	case 5:
		l := link{bytesPerSecond: 100_000 + c.rng.IntN(2_000_000)}
		both(l)
		begin("bandwidth", func() { both(link{}) })
	case 6:
		c.write[i].set(link{cut: true})
		begin("cut from writers", func() { c.write[i].set(link{}) })
	case 7:
		c.read[i].set(link{cut: true})
		begin("cut from readers", func() { c.read[i].set(link{}) })
	case 8:
		c.write[i].reset()
		c.read[i].reset()
		c.fault("reset")
	case 9:
		n.kill()
		n.Arena = uint64(2+2*c.rng.IntN(12)) << 20
		n.start()
		c.fault("restart with another arena")
	case 10:
		if n.setBack(); c.rng.IntN(3) == 0 {
			c.clockBack.Add(int64(time.Minute))
		}
		c.fault("clock set back")
	case 11:
		if in := c.full - c.out; i >= c.full || in <= 3 {
			return // as many as there are replicas stay
		}
		c.out++
		c.leave(i)
		begin("node out of the description", func() {
			c.out--
			c.join(i)
		})
	}
}

// calm ends all trouble.
func (c *chance) calm() {
	for i, end := range c.ends {
		end()
		delete(c.ends, i)
	}
}
