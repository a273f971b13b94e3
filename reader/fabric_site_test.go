package reader

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// site is a cluster of fabrics, its durable store, one writer of one shard, and a
// Cluster of Readers.
type site struct {
	*siteWriter
	c     *Cluster
	views *views
	keeps bool // nodes remember what they were

	mu    sync.Mutex
	nodes map[string]*siteNode
}

// siteNode is a node of a site: its arena, and whether it can be reached.
type siteNode struct {
	*fabric
	size    uint64
	up      bool
	deaf    bool          // writers do not reach it
	changed chan struct{} // closed when up changes
}

// views is a Source that a test moves.
type views struct {
	mu      sync.Mutex
	view    *cluster.View
	changed chan struct{}
}

func (s *views) View() (*cluster.View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.changed
}

func (s *views) set(t testing.TB, d cluster.Description) {
	view, err := cluster.NewView(d)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
	}
	s.view, s.changed = view, make(chan struct{})
}

// siteNodes describes nodes by name; those that begin with p are partial.
func siteNodes(names ...string) (d cluster.Description) {
	for _, n := range names {
		node := cluster.Node{Name: n, Addr: n + ":1", Roles: cluster.Data | cluster.Metadata, Weight: 1}
		if n[0] == 'p' {
			node.Partial, node.Roles = true, cluster.Data
		}
		d.Nodes = append(d.Nodes, node)
	}
	return d
}

// newSite starts the nodes of a description, with arenas of a size (an eighth of it
// if partial), whose reads go over a transport. It ends with the test.
func newSite(t *testing.T, d cluster.Description, size uint64, as Source, change ...func(*Config)) *site {
	cfg := Config{Cluster: &views{}}
	for _, c := range change {
		c(&cfg)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{views: cfg.Cluster.(*views), nodes: map[string]*siteNode{}, c: newCluster(cfg)}
	s.siteWriter = newSiteWriter(t, s)
	s.c.gate = newGate(s.store, cfg, &s.c.count)
	s.c.runPeer = func(p *peer, after time.Duration) { s.serve(p, after, as) }
	for _, n := range d.Nodes {
		s.start(n.Name, siteArena(size, n), uint64(len(s.nodes)+1))
	}
	s.views.set(t, d)
	view, changed := s.views.View()
	if err := s.c.connect(t.Context(), view, changed); err != nil {
		t.Fatal(err)
	}
	return s
}

func siteArena(size uint64, n cluster.Node) uint64 {
	if n.Partial {
		return max(size/8, 1200<<10)
	}
	return size
}

// start makes a node, empty, in place of an earlier one.
func (s *site) start(name string, size, seed uint64) {
	n := &siteNode{fabric: newFabric(s.t.(*testing.T), size, seed, faults{}), size: size, up: true, changed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.nodes[name]; old != nil {
		close(old.changed)
		if old.up {
			close(old.fabric.lost)
		}
	}
	s.nodes[name] = n
}

// kill cuts every connection to nodes; what they held is lost.
func (s *site) kill(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		n := s.nodes[name]
		n.up = false
		close(n.lost)
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// restart has killed nodes come back empty, with arenas of another size if it is set.
func (s *site) restart(size uint64, names ...string) {
	for i, name := range names {
		was := s.node(name).size
		if size > 0 {
			was = size
		}
		s.start(name, was, uint64(100+i))
	}
}

func (s *site) node(name string) *siteNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name]
}

// mix sets what goes wrong at nodes.
func (s *site) mix(f faults, names ...string) {
	for _, name := range names {
		s.node(name).set(f)
	}
}

// deafen keeps writers from nodes, or no longer.
func (s *site) deafen(deaf bool, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.nodes[name].deaf = deaf
	}
}

// serve is (*peer).run for a fabric: it connects while the node is up.
func (s *site) serve(p *peer, after time.Duration, as Source) {
	first := true
	for p.sleep(after) {
		after = 20 * time.Millisecond
		n := s.node(p.name)
		s.mu.Lock()
		up, changed := n.up, n.changed
		s.mu.Unlock()
		if up {
			if via, err := newPath(n.fabric, as, n.arena.Epoch(), s.c.cfg.ReadTimeout); err == nil {
				p.give(via)
				s.c.pathsChanged()
				if first {
					close(p.ready)
					first = false
				}
				select {
				case <-changed:
				case <-p.ctx.Done():
					select {
					case <-time.After(s.c.cfg.ReadTimeout):
					case <-s.c.stop:
					}
				}
				p.give()
				s.c.pathsChanged()
			}
		}
	}
}

// siteWriter appends to the store, then to the replicas of each chunk, then publishes
// to those of the page, as a producer does that reaches all nodes that are up and not
// deaf.
type siteWriter struct {
	t     testing.TB
	s     *site
	shard layout.Shard
	store *positionStore
	tail  prefix
	beat  uint64

	mu  sync.Mutex
	pos uint64
	at  []sitePublication // for delays
}

type sitePublication struct {
	length uint64
	at     time.Time
}

func newSiteWriter(t testing.TB, s *site) *siteWriter {
	w := &siteWriter{t: t, s: s, shard: layout.Shard{Stream: "fabric", Number: 3}, store: &positionStore{}}
	w.store.info.Incarnation = 77
	w.tail = prefixAt(w.hash(), 0)
	return w
}

func (w *siteWriter) hash() layout.Hash { return w.shard.Hash(w.store.info.Incarnation) }

func (w *siteWriter) reached(view *cluster.View, nodes []uint16) (all []*siteNode) {
	for _, i := range nodes {
		n := w.s.node(view.Nodes[i].Name)
		w.s.mu.Lock()
		if n.up && !n.deaf {
			all = append(all, n)
		}
		w.s.mu.Unlock()
	}
	return all
}

// append makes n bytes durable and puts them, without publishing.
func (w *siteWriter) append(n int) {
	view, _ := w.s.views.View()
	w.store.set(func(s *positionStore) { s.info.Length += uint64(n) })
	for n > 0 {
		from := int(w.pos % layout.ChunkSize)
		part := make([]byte, min(n, layout.ChunkSize-from))
		fill(part, w.pos)
		crc := w.tail.crc
		if from == 0 {
			crc = layout.SeedCRC(w.hash(), layout.Chunk(w.pos))
		}
		crc = layout.ExtendCRC(crc, part)
		var set cluster.Replicas
		view.Extent(w.hash(), layout.Extent(w.pos), &set)
		for _, node := range w.reached(view, set.All()) {
			err := node.arena.Put(layout.Put{Shard: w.hash(), Chunk: layout.Chunk(w.pos), From: from, CRC: crc, Data: part})
			if err != nil && from > 0 { // it lacks the chunk's beginning
				whole := make([]byte, from+len(part))
				fill(whole, w.pos-uint64(from))
				err = node.arena.Put(layout.Put{Shard: w.hash(), Chunk: layout.Chunk(w.pos), CRC: crc, Data: whole})
			}
			if err != nil {
				w.t.Errorf("put at %d: %v", w.pos, err)
			}
		}
		w.tail = prefix{crc, true}
		w.mu.Lock()
		w.pos += uint64(len(part))
		w.mu.Unlock()
		n -= len(part)
	}
}

func (w *siteWriter) publish(flags uint16) {
	view, _ := w.s.views.View()
	w.beat++
	e := layout.Entry{Length: w.pos, TailCRC: w.tail.crc, HeartbeatMS: w.beat, Flags: flags, Incarnation: w.store.info.Incarnation}
	var set cluster.Replicas
	view.Page(layout.StreamHash(w.shard.Stream), w.shard.Page(), &set)
	for _, node := range w.reached(view, set.All()) {
		if err := node.arena.Publish(layout.Publication{Shard: w.shard, Entry: e.Seal(w.hash())}); err != nil {
			w.t.Errorf("publish %d: %v", w.pos, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = append(w.at, sitePublication{w.pos, time.Now()})
}

// run appends records of random size at a random pace until the shard has total
// bytes.
func (w *siteWriter) run(seed, total uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for w.pos < total {
		w.append(1 + rng.IntN([]int{30, 300, 9000, 120_000}[rng.IntN(4)]))
		w.publish(0)
		if rng.IntN(8) == 0 && w.s.keeps {
			w.s.keep()
		}
		<-time.After(time.Duration(1+rng.IntN(4000)) * time.Microsecond)
	}
}

// seal ends the shard.
func (w *siteWriter) seal() {
	w.store.set(func(s *positionStore) { s.info.Sealed = true })
	w.publish(layout.FlagSealed)
}

// keep has every node remember its arena as it is now.
func (s *site) keep() {
	s.mu.Lock()
	nodes := make([]*siteNode, 0, len(s.nodes))
	for _, n := range s.nodes {
		nodes = append(nodes, n)
	}
	s.mu.Unlock()
	for _, n := range nodes {
		n.keep()
	}
}

// delays follows the shard from a position to the end that until reports, checks every
// byte, and returns how long after its publication each publication was delivered, in
// rising order, and how many bytes came from each source.
func (s *site) delays(r *Reader, until uint64) (delays []time.Duration, by [sources]int) {
	pos := r.Position()
	next, _ := slices.BinarySearchFunc(s.publications(), pos+1, func(p sitePublication, pos uint64) int { return int(int64(p.length) - int64(pos)) })
	for pos < until {
		b, err := r.Next(s.t.Context())
		if err != nil || b.Position != pos || wrongAt(b.Data, pos) >= 0 {
			s.t.Errorf("%d bytes at %d, want %d, from %v: %v; %+v", len(b.Data), b.Position, pos, b.Source, err, s.c.Stats())
			return delays, by
		}
		pos += uint64(len(b.Data))
		by[b.Source] += len(b.Data)
		for at := s.publications(); next < len(at) && at[next].length <= pos; next++ {
			delays = append(delays, time.Since(at[next].at))
		}
	}
	slices.Sort(delays)
	return delays, by
}

func (w *siteWriter) publications() []sitePublication {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// percentile is of sorted delays.
func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(len(d)*p/100, len(d)-1)]
}
