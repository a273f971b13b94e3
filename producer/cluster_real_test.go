package producer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// realSite is a cluster of real nodes on the loopback, some of them processes of
// their own.
type realSite struct {
	t    *testing.T
	desc cluster.Description
	view *cluster.View
	dir  string // the store
	hash layout.Hash
	// served are the nodes of this process, by name; procs the others.
	served map[string]*node
	procs  map[string]*exec.Cmd
}

// spec is what a child process needs to know: its name, all addresses, the store.
type spec struct {
	Name  string
	Addrs []string
	Dir   string
	Crash crash
}

func (s spec) source() (*cluster.Fixed, error) {
	d := cluster.Description{Store: cluster.Store{Dir: s.Dir}}
	for i, addr := range s.Addrs {
		d.Nodes = append(d.Nodes, cluster.Node{Name: fmt.Sprintf("n%d", i+1), Addr: addr, Roles: cluster.Data | cluster.Metadata, Weight: 1})
	}
	return cluster.NewFixed(d)
}

// freeAddrs are addresses that nobody has just now.
func freeAddrs(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

func (s spec) nodeConfig(source cluster.Source) server.Config {
	i := 0
	fmt.Sscanf(s.Name, "n%d", &i)
	return server.Config{
		Listen: s.Addrs[i-1], Cluster: source, Node: s.Name, Arena: chunkstore.Config{Bytes: 16 << 20}, Socket: server.SocketNone,
		RDMAMode: server.RDMAOff, Heartbeat: 100 * time.Millisecond, Durable: durable.Options{Policy: durable.Never},
	}
}

// childNode is a node until it is killed.
func childNode(what string) error {
	var s spec
	if err := json.Unmarshal([]byte(what), &s); err != nil {
		return err
	}
	source, err := s.source()
	if err != nil {
		return err
	}
	n, err := server.New(s.nodeConfig(source))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return n.Serve(context.Background())
}

// newRealSite starts nodes n1, n2, ...; those that are named in procs get
// processes of their own. The node that is named as owner has the store.
func newRealSite(t *testing.T, n int, owner string, procs ...string) *realSite {
	t.Helper()
	s := &realSite{t: t, dir: t.TempDir(), served: map[string]*node{}, procs: map[string]*exec.Cmd{}}
	sp := spec{Addrs: freeAddrs(t, n), Dir: s.dir}
	source, err := sp.source()
	if err != nil {
		t.Fatal(err)
	}
	s.view, _ = source.View()
	s.desc = s.view.Description
	for _, m := range s.view.Nodes {
		sp.Name = m.Name
		if slices.Contains(procs, m.Name) {
			s.startProcess(m.Name)
			continue
		}
		cfg := sp.nodeConfig(source)
		if m.Name == owner {
			cfg.Dir = s.dir
		}
		s.served[m.Name] = &node{cfg: cfg}
		s.served[m.Name].start(t)
	}
	return s
}

// startProcess starts a node, empty, as a process.
func (s *realSite) startProcess(name string) {
	s.t.Helper()
	sp := spec{Name: name, Dir: s.dir}
	for _, n := range s.view.Nodes {
		sp.Addrs = append(sp.Addrs, n.Addr)
	}
	s.procs[name] = start(s.t, asNode, sp, func(line string) error {
		if line != "ready\n" {
			return fmt.Errorf("node says %q", line)
		}
		return nil
	})
}

// start runs the test binary as a child, and hands its first line to ready.
func start(t *testing.T, as string, sp spec, ready func(line string) error) *exec.Cmd {
	t.Helper()
	what, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), as+"="+string(what))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = ready(line)
	}
	if err != nil {
		t.Fatalf("child: %q, %v", line, err)
	}
	return cmd
}

func (s *realSite) signal(name string, sig syscall.Signal) {
	s.t.Helper()
	if err := s.procs[name].Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	if sig == syscall.SIGKILL {
		_ = s.procs[name].Wait() // says that it was killed
	}
}

// end stops all nodes.
func (s *realSite) end() {
	for name, p := range s.procs {
		_ = p.Process.Signal(syscall.SIGCONT)
		s.signal(name, syscall.SIGKILL)
	}
	for _, n := range s.served {
		n.stop()
	}
}

// arena reads a node's arena over a connection of its own, by layout alone.
type arena struct {
	c *wire.Client
	g layout.Geometry
}

func dialArena(ctx context.Context, addr string) (*arena, error) {
	c, err := wire.Dial(ctx, addr, wire.Options{})
	if err != nil {
		return nil, err
	}
	a := &arena{c: c}
	b, err := a.read(ctx, 0, layout.HeaderSize)
	if err == nil {
		var h layout.Header
		h, err = layout.ParseHeader(b)
		a.g = h.Geometry
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return a, nil
}

func (a *arena) read(ctx context.Context, off uint64, n int) ([]byte, error) {
	req, err := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: off, N: uint32(n)}})
	if err != nil {
		return nil, err
	}
	return a.c.Call(ctx, wire.OpReadArena, req, nil)
}

// entry is the shard's; none if the node has no page of it.
func (a *arena) entry(ctx context.Context, shard layout.Shard) (e layout.Entry, err error) {
	stream := layout.StreamHash(shard.Stream)
	for _, set := range a.g.PageSetsOf(stream, shard.Page()) {
		b, err := a.read(ctx, a.g.PageSet(set), layout.SetSize)
		if err != nil {
			return e, err
		}
		if way, _, ok := layout.FindIdentity(b, stream, shard.Page()); ok {
			page, err := a.read(ctx, a.g.PageSlot(set*layout.Ways+uint32(way)), layout.PageSize)
			return layout.ParseEntry(page, shard.EntryOffset()), err
		}
	}
	return e, nil
}

// extent returns the chunks of an extent that validate; nil: it is not there.
func (a *arena) extent(ctx context.Context, hash layout.Hash, extent uint64) (chunks [layout.ChunksPerExtent][]byte, err error) {
	for _, set := range a.g.ExtentSetsOf(hash, extent) {
		b, err := a.read(ctx, a.g.ExtentSet(set), layout.SetSize)
		if err != nil {
			return chunks, err
		}
		way, generation, ok := layout.FindIdentity(b, hash, extent)
		if !ok {
			continue
		}
		index := set*layout.Ways + uint32(way)
		descs, err := a.read(ctx, a.g.Descriptors(index), layout.DescriptorsSize)
		if err != nil {
			return chunks, err
		}
		slot, err := a.read(ctx, a.g.ExtentSlot(index), layout.ExtentSize)
		if err != nil {
			return chunks, err
		}
		for i := range chunks {
			d := layout.ParseDescriptor(descs, i)
			data := slot[i*layout.ChunkSize:][:d.Valid()]
			if d.Of(generation) && layout.ExtendCRC(layout.SeedCRC(hash, extent*layout.ChunksPerExtent+uint64(i)), data) == d.CRC() {
				chunks[i] = data
			}
		}
	}
	return chunks, nil
}

// check reads all nodes that answer: no byte that validates is wrong. It returns
// an error unless every chunk of [from, length) is on so many of its full replicas, and
// the length on all metadata replicas that answer, lengths of them at least.
func (s *realSite) check(from, length uint64, copies, lengths int) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	arenas := make([]*arena, len(s.view.Nodes))
	for i, n := range s.view.Nodes {
		dialCtx, cancel := context.WithTimeout(ctx, time.Second)
		arenas[i], _ = dialArena(dialCtx, n.Addr)
		cancel()
		if arenas[i] != nil {
			defer arenas[i].c.Close()
		}
	}
	var set cluster.Replicas
	for e := layout.Extent(from); e*layout.ExtentSize < length; e++ {
		s.view.Extent(s.hash, e, &set)
		var have [layout.ChunksPerExtent]int
		for _, i := range set.Full() {
			if arenas[i] == nil {
				continue
			}
			chunks, err := arenas[i].extent(ctx, s.hash, e)
			if err != nil {
				return err
			}
			for j, data := range chunks {
				pos := e*layout.ExtentSize + uint64(j)*layout.ChunkSize
				if string(data) != string(record(pos, len(data))) {
					s.t.Fatalf("node %s has wrong bytes at %d", s.view.Nodes[i].Name, pos)
				}
				if pos < length && uint64(len(data)) >= min(layout.ChunkSize, length-pos) {
					have[j]++
				}
			}
		}
		for j, n := range have {
			if pos := e*layout.ExtentSize + uint64(j)*layout.ChunkSize; pos >= from && pos < length && n < copies {
				return fmt.Errorf("%d copies of the chunk at %d, want %d", n, pos, copies)
			}
		}
	}
	s.view.Page(layout.StreamHash(shard.Stream), shard.Page(), &set)
	published := 0
	for _, i := range set.Full() {
		if arenas[i] == nil {
			continue
		}
		e, err := arenas[i].entry(ctx, shard)
		if err != nil {
			return err
		}
		if e.Valid(s.hash) && e.Length > length {
			s.t.Fatalf("node %s has published %d of %d", s.view.Nodes[i].Name, e.Length, length)
		}
		if e.Valid(s.hash) && e.Length == length {
			published++
		}
	}
	if published < lengths {
		return fmt.Errorf("the length %d is on %d nodes, want %d", length, published, lengths)
	}
	return nil
}

// TestRealCluster appends through the node that owns the store, to five replicas,
// of which one is frozen, killed and restarted empty, and another restarted with
// another arena; no append fails, and repair brings all that is young back.
func TestRealCluster(t *testing.T) {
	s := newRealSite(t, 5, "n1", "n5")
	defer s.end()
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	c, err := wire.Dial(ctx, s.view.Nodes[0].Addr, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	store := durable.NewRemote(c)
	length, slowest := uint64(0), time.Duration(0)
	add := func(n, size int) {
		t.Helper()
		for range n {
			began := time.Now()
			pos, end, err := store.Append(ctx, shard.String(), length, record(length, size))
			if err != nil || pos != length {
				t.Fatalf("append at %d: %d, %v", length, pos, err)
			}
			length = end
			slowest = max(slowest, time.Since(began))
		}
	}
	arrives := func(what string, copies, lengths int) {
		t.Helper()
		eventually(t, what, func() error { return s.check(0, length, copies, lengths) })
	}
	add(1, 100)
	info, err := store.Stat(ctx, shard.String())
	if err != nil {
		t.Fatal(err)
	}
	s.hash = shard.Hash(info.Incarnation)
	add(20, 30_000)
	arrives("all replicas have what was appended", 3, 3)

	s.signal("n5", syscall.SIGSTOP)
	add(50, 10_000)
	if err := s.check(0, length, 2, 2); err != nil {
		t.Errorf("with a frozen node: %v", err)
	}
	s.signal("n5", syscall.SIGCONT)
	arrives("the node that was frozen has what it has missed", 3, 3)

	s.signal("n5", syscall.SIGKILL)
	add(50, 10_000)
	s.startProcess("n5")
	arrives("the node that was killed is filled again", 3, 3)

	n2 := s.served["n2"]
	n2.stop()
	add(20, 10_000)
	n2.cfg.Arena.Bytes = 24 << 20
	n2.start(t)
	arrives("the node with another arena is filled again", 3, 3)
	t.Logf("report: replicas: 1 real node of 5 frozen, killed and another restarted while %d bytes were appended; slowest append %v", length, slowest)
}

// TestRealSingleStaysAsItWas: a node without a cluster is one of its own.
func TestRealSingleStaysAsItWas(t *testing.T) {
	n := &node{cfg: server.Config{
		Listen: "127.0.0.1:0", Dir: t.TempDir(), Arena: chunkstore.Config{Bytes: 4 << 20}, Socket: server.SocketNone, RDMAMode: server.RDMAOff,
	}}
	n.start(t)
	defer n.stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := wire.Dial(ctx, n.cfg.Listen, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := durable.NewRemote(c).Append(ctx, shard.String(), 0, record(0, 10_000)); err != nil {
		t.Fatal(err)
	}
	b, err := c.Call(ctx, wire.OpNodeStat, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var st server.Stats
	if err := json.Unmarshal(b, &st); err != nil {
		t.Fatal(err)
	}
	want := producer.NodeStats{Node: n.cfg.Listen, Addr: n.cfg.Listen, State: "local", Data: true, Metadata: true, Puts: 3, PutBytes: 10_000, Publishes: 2}
	if st.Node != n.cfg.Listen || st.Role != "data and metadata" || st.Replicas == nil || len(st.Replicas.Nodes) != 1 || st.Replicas.Nodes[0] != want || st.Arena.Leases != 1 {
		t.Errorf("%+v", st)
	}
}
