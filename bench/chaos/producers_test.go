package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/producer"
)

// stage is a moment in the life of a record at which its producer is killed.
type stage string

const (
	never         stage = ""
	beforeAppend  stage = "before the append"
	behindAppend  stage = "behind the append"
	duringPut     stage = "during the put"
	behindPut     stage = "behind the put"
	duringPublish stage = "during the publication"
	behindPublish stage = "behind the publication"
)

// producerSpec is what a producer process is told.
type producerSpec struct {
	Dir     string
	Cluster cluster.Description
	Shard   layout.Shard
	Records int   // to append before it dies, or waits for its input's end
	Die     stage // of the last record
	Seed    uint64
}

// beProducer appends records, one after the other, says the end of each that was
// acknowledged, and dies when it is told to.
func beProducer(spec producerSpec) error {
	store, err := durable.Open(spec.Dir, durable.Options{Policy: durable.Never})
	if err != nil {
		return err
	}
	defer store.Close()
	source, err := cluster.NewFixed(spec.Cluster)
	if err != nil {
		return err
	}
	replicas, err := producer.NewReplicaCache(producer.ReplicaConfig{Source: source, Store: store, Owner: "chaos-" + strconv.Itoa(os.Getpid()), Logger: logger()})
	if err != nil {
		return err
	}
	defer replicas.Close()
	log, err := store.Log(spec.Shard.String())
	if err != nil {
		return err
	}
	d := &death{stage: spec.Die}
	name := spec.Shard.String()
	a, err := producer.Open(context.Background(), producer.Config{Shard: spec.Shard, Log: dyingLog{log, d}, Cache: dyingCache{replicas, d}, Logger: logger(),
		ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) { return store.ReadAt(ctx, name, pos, p) }})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(spec.Seed, 17))
	pos := log.Info().Length
	for i := range spec.Records {
		d.armed = i == spec.Records-1
		p := make([]byte, 1+rng.IntN(20_000))
		fill(p, spec.Shard, pos)
		k, err := a.AppendAt(context.Background(), pos, p)
		if err != nil {
			return err
		}
		if _, err := k.Wait(context.Background()); err != nil {
			return err
		}
		pos += uint64(len(p))
		fmt.Println(pos)
	}
	fmt.Println("done")
	io.Copy(io.Discard, os.Stdin)
	return a.Close(context.Background())
}

// death kills the process at a stage of the last record.
type death struct {
	stage stage
	armed bool
}

func (d *death) at(s stage) {
	if d.armed && d.stage == s {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal has come
	}
}

// during lets the process die while something is under way.
func (d *death) during(s stage) {
	if d.armed && d.stage == s {
		go func() {
			<-time.After(time.Duration(rand.IntN(1000)) * time.Microsecond)
			d.at(s)
		}()
	}
}

type dyingLog struct {
	*durable.Log
	d *death
}

func (l dyingLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	l.d.at(beforeAppend)
	end, err := l.Log.Append(ctx, off, p)
	l.d.at(behindAppend)
	return end, err
}

type dyingCache struct {
	*producer.ReplicaCache
	d *death
}

func (c dyingCache) Put(shard layout.Shard, puts []layout.Put, errs []error) {
	c.d.during(duringPut)
	c.ReplicaCache.Put(shard, puts, errs)
	c.d.at(duringPut)
	c.d.at(behindPut)
}

func (c dyingCache) Publish(p layout.Publication) error {
	c.d.during(duringPublish)
	err := c.ReplicaCache.Publish(p)
	c.d.at(duringPublish)
	c.d.at(behindPublish)
	return err
}

// runProducer starts a producer process, and notes what it says into the feed until
// it has ended, or is done.
func (s *site) runProducer(f *feed, die stage, records int, seed uint64) *process {
	s.t.Helper()
	p, err := start("producer", producerSpec{Dir: s.dir, Cluster: s.nodes[0].Cluster, Shard: f.shard, Records: records, Die: die, Seed: seed})
	if err != nil {
		s.t.Fatal(err)
	}
	said := bufio.NewScanner(p.out)
	for said.Scan() {
		line := strings.TrimSpace(said.Text())
		if line == "done" {
			return p
		}
		end, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			s.t.Fatalf("the producer said %q", line)
		}
		f.acked.Store(end)
		if s.direct == nil {
			s.follow() // now that there is a shard
		}
	}
	p.wait()
	if die == never {
		s.t.Fatal("the producer has ended before it was done")
	}
	return nil
}

// TestRealChaosProducerKilled: a producer dies at each step of a record, another
// one goes on with the shard. What was acknowledged is delivered; what was durable
// and not acknowledged is delivered once.
func TestRealChaosProducerKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteConfig{full: 4, shards: 1, elsewhere: true})
	f := s.feeds[0]
	for i, die := range []stage{beforeAppend, behindAppend, duringPut, behindPut, duringPublish, behindPublish} {
		s.runProducer(f, die, 10+i, uint64(i))
		s.fault("producer killed " + string(die))
		if i == 1 { // nobody comes for a while: the store is asked
			info, err := s.info(f.shard)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, 15*time.Second, "bytes that no producer published", func() bool { return s.atLeast(f, info.Length) })
		}
	}
	p := s.runProducer(f, never, 30, 99)
	eventually(t, 10*time.Second, "everything from the last producer", func() bool { return s.atLeast(f, f.acked.Load()) })
	p.in.Close()
	p.wait()
	s.finish("a producer killed at each step")
}

// atLeast reports whether every reader of a shard has reached a position.
func (s *site) atLeast(f *feed, pos uint64) bool {
	for _, x := range s.tails {
		if x.shard == f.shard && x.pos.Load() < pos {
			return false
		}
	}
	return true
}
