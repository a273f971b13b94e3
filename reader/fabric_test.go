package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// fabric is a memory transport over a real arena that misbehaves on purpose, as
// far as a NIC, a network or a restarted node could, and further.
type fabric struct {
	arena *chunkstore.Arena
	old   [][]byte // earlier images of the arena, oldest first
	rng   *rand.Rand
	mix   faults
	lost  chan struct{}

	mu       sync.Mutex
	injected map[string]int
}

// faults are probabilities: of a read for the first group, of a batch for the second.
type faults struct {
	tear64, tear1024, tear4096 float64 // pieces of that size come from different times
	stale                      float64 // the whole read comes from an old image
	swap                       float64 // bytes of a neighbouring slot, consistent in themselves
	flip                       float64 // one bit is wrong
	zero                       float64 // zeroes
	deadline, broken           float64
	slow                       float64 // answered after delay
	delay                      time.Duration
}

const imagesKept = 6

func newFabric(t *testing.T, size uint64, seed uint64, mix faults) *fabric {
	a, err := chunkstore.New(chunkstore.Config{Bytes: size, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return &fabric{arena: a, rng: rand.New(rand.NewPCG(seed, 1)), mix: mix, lost: make(chan struct{}), injected: map[string]int{}}
}

// keep remembers the arena as it is now, for reads that come from the past.
func (f *fabric) keep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	image := append([]byte(nil), f.arena.Bytes()...)
	if f.old = append(f.old, image); len(f.old) > imagesKept {
		f.old = f.old[1:]
	}
}

func (f *fabric) set(mix faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mix = mix
}

func (f *fabric) newBatch(size int) (batch, error) {
	if f.down() {
		return nil, errBroken
	}
	return &fabricBatch{f: f, room: size}, nil
}

func (f *fabric) Lost() <-chan struct{} { return f.lost }
func (f *fabric) Err() error            { return errBroken }
func (f *fabric) Close() error          { return nil }

// down reports whether the connection is lost.
func (f *fabric) down() bool {
	select {
	case <-f.lost:
		return true
	default:
		return false
	}
}

var errBroken = errors.New("fabric: completion with error")

// fabricBatch is answered at once, or after a time that is decided when it is posted.
type fabricBatch struct {
	f        *fabric
	room     int
	reads    []fabricRead
	deadline time.Time
	due      time.Time // when it is answered; zero: never
	broken   bool
	posted   bool
}

var poison = bytes.Repeat([]byte{0xDB}, 1<<16)

type fabricRead struct {
	off uint64
	to  []byte
}

func (b *fabricBatch) Add(off uint64, n int) []byte {
	if n <= 0 || n > b.room || off+uint64(n) > uint64(len(b.f.arena.Bytes())) || b.posted {
		return nil
	}
	b.room -= n
	to := make([]byte, n)
	b.reads = append(b.reads, fabricRead{off, to})
	return to
}

func (b *fabricBatch) Post(deadline time.Time) error {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.posted || len(b.reads) == 0 {
		panic("fabric: post of a batch that is posted or empty")
	}
	if f.down() {
		return errBroken
	}
	b.posted, b.deadline, b.due = true, deadline, time.Now()
	if f.hit("deadline", f.mix.deadline) {
		b.due = time.Time{}
		return nil
	}
	b.broken = f.hit("broken", f.mix.broken)
	if f.mix.delay > 0 && f.hit("slow", f.mix.slow) {
		b.due = b.due.Add(f.mix.delay)
	}
	return nil
}

func (b *fabricBatch) Await(until time.Time) (settled bool, err error) {
	if !b.posted {
		panic("fabric: wait for a batch that is not posted")
	}
	f := b.f
	end := earliest(b.deadline, b.due)
	if until.Before(end) {
		end = until
	}
	if d := time.Until(end); d > 0 { // of the race detector several due timers at once are too much (golang/go#78156)
		select {
		case <-time.After(d):
		case <-f.lost:
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down() || !b.due.IsZero() && !b.due.After(time.Now()) && b.broken:
		b.posted = false
		return true, errBroken
	case b.due.IsZero() || b.due.After(time.Now()):
		if until.Before(b.deadline) {
			return false, nil
		}
		b.posted = false
		return true, os.ErrDeadlineExceeded
	}
	b.posted = false
	for _, i := range f.rng.Perm(len(b.reads)) { // no order between the reads of a batch
		f.read(b.reads[i].off, b.reads[i].to)
	}
	return true, nil
}

func (b *fabricBatch) Reset() {
	if b.posted {
		panic("fabric: Reset of a batch in flight")
	}
	for _, r := range b.reads {
		b.room += len(r.to)
		copy(r.to, poison) // a slice that is used after its end shows
	}
	b.reads = nil
}

// Release while reads are on their way leaves the memory to them.
func (b *fabricBatch) Release() {
	if !b.posted {
		b.Reset()
	}
	b.posted = false
}

func (f *fabric) hit(kind string, p float64) bool {
	if p == 0 || f.rng.Float64() >= p {
		return false
	}
	f.injected[kind]++
	return true
}

// count returns how often something was injected.
func (f *fabric) count(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected[kind]
}

func (f *fabric) read(off uint64, to []byte) {
	now := f.arena.Bytes()
	past := func() []byte {
		if len(f.old) == 0 {
			return now
		}
		return f.old[f.rng.IntN(len(f.old))]
	}
	tear := func(size int) {
		for i := 0; i < len(to); i += size {
			from := now
			if f.rng.IntN(2) == 0 {
				from = past()
			}
			copy(to[i:min(i+size, len(to))], from[off+uint64(i):])
		}
	}
	switch {
	case f.hit("tear64", f.mix.tear64):
		tear(64)
	case f.hit("tear1024", f.mix.tear1024):
		tear(1024)
	case f.hit("tear4096", f.mix.tear4096):
		tear(4096)
	case f.hit("stale", f.mix.stale):
		copy(to, past()[off:])
	case f.hit("swap", f.mix.swap):
		if off+layout.ExtentSize+uint64(len(to)) <= uint64(len(now)) {
			off += layout.ExtentSize
		}
		copy(to, now[off:])
	case f.hit("zero", f.mix.zero):
		clear(to)
	default:
		copy(to, now[off:])
	}
	if f.hit("flip", f.mix.flip) {
		to[f.rng.IntN(len(to))] ^= 1 << f.rng.IntN(8)
	}
}

// fill writes the content that a position determines.
func fill(p []byte, pos uint64) {
	for i := 0; i < len(p); {
		at := pos + uint64(i)
		x := at / 8
		x = (x ^ x>>31) * 0x9e3779b97f4a7c15
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], x^x>>32)
		i += copy(p[i:], w[at%8:])
	}
}

// wrongAt returns where data, which begins at pos, is wrong; -1 if nowhere.
func wrongAt(data []byte, pos uint64) int {
	want := make([]byte, len(data))
	if fill(want, pos); bytes.Equal(want, data) {
		return -1
	}
	for i := range data {
		if data[i] != want[i] {
			return i
		}
	}
	return -1
}

// bareCluster is a Cluster of one node without connections: everything but the
// connecting is the real code.
func bareCluster(t testing.TB, s store) *Cluster {
	cfg, err := Config{Server: "fabric:0"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(cfg)
	c.gate = newGate(s, cfg, &c.count)
	c.members(t, cfg.Cluster)
	return c
}

// members makes the nodes of a source the Cluster's, without dialling them.
func (c *Cluster) members(t testing.TB, s cluster.Source) {
	view, _ := s.View()
	ro := &roster{view: view}
	for _, node := range view.Nodes {
		ro.peers = append(ro.peers, newPeer(c, node))
	}
	c.name = view.Nodes[0].Name
	c.roster.Store(ro)
}

// only is the one node of a Cluster.
func (c *Cluster) only() *peer { return c.roster.Load().peers[0] }

// give makes paths those of a node that is connected.
func (p *peer) give(paths ...*path) {
	for _, via := range paths {
		via.peer = p
	}
	p.live.Store(&paths)
}

// fabricCluster is a Cluster over the fabric.
func fabricCluster(t *testing.T, f *fabric, s store) *Cluster {
	return fabricClusterAs(t, f, s, FromSHM)
}

// fabricClusterAs is one to which the fabric is some transport: all but shm read
// ahead.
func fabricClusterAs(t *testing.T, f *fabric, s store, as Source) *Cluster {
	c := bareCluster(t, s)
	p, err := newPath(f, as, f.arena.Epoch(), c.cfg.ReadTimeout)
	if err != nil {
		t.Fatal(err)
	}
	c.only().give(p)
	c.tasks.Go(newPoller(c).run)
	return c
}
