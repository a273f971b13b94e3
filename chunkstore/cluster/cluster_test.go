package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// seven are 4 full data nodes, of which a, b and c hold length pages, 2 partial
// ones, and one node for length pages alone.
func seven() Description {
	d := Description{Name: "site", Store: Store{Node: "a"}}
	for i, n := range []struct {
		name    string
		roles   Roles
		partial bool
	}{
		{"a", Data | Metadata, false}, {"m", Metadata, false}, {"b", Data | Metadata, false}, {"p", Data, true},
		{"c", Data | Metadata, false}, {"d", Data, false}, {"q", Data, true},
	} {
		d.Nodes = append(d.Nodes, Node{Name: n.name, Addr: fmt.Sprintf("10.0.0.%d:7440", i+1), Roles: n.roles, Weight: 1, Partial: n.partial})
	}
	return d
}

func TestDefaults(t *testing.T) {
	d := seven()
	v, err := NewView(d)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{v.Full, v.Partial, v.Quorum, v.MetadataReplicas, v.MetadataQuorum}
	if want := []int{3, 2, 2, 3, 2}; !slices.Equal(got, want) || v.TTL != time.Minute || v.HedgeDelay != 30*time.Millisecond {
		t.Errorf("defaults %v, TTL %v, hedge %v; want %v, 1m, 30ms", got, v.TTL, v.HedgeDelay, want)
	}
	small, err := NewView(Description{Nodes: []Node{{Name: "a", Addr: "a:1", Roles: Data | Metadata, Weight: 1}, {Name: "b", Addr: "b:1", Roles: Data, Weight: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	got = []int{small.Full, small.Partial, small.Quorum, small.MetadataReplicas, small.MetadataQuorum}
	if want := []int{2, 0, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("defaults of two nodes %v, want %v", got, want)
	}
	d.Full, d.Partial, d.Quorum, d.MetadataReplicas, d.MetadataQuorum, d.TTL, d.HedgeDelay = 4, 1, 1, 4, 3, time.Hour, time.Second
	if v, err = NewView(d); err != nil {
		t.Fatal(err)
	}
	got = []int{v.Full, v.Partial, v.Quorum, v.MetadataReplicas, v.MetadataQuorum}
	if want := []int{4, 1, 1, 4, 3}; !slices.Equal(got, want) || v.TTL != time.Hour || v.HedgeDelay != time.Second {
		t.Errorf("set %v, %v, %v; the view has %v", want, time.Hour, time.Second, v.Description)
	}
}

// TestReplicasAreIndicesOfNodesAndAllocateNothing: each key lies on nodes of its role, partial ones
// last, and every node that has a role holds something.
func TestReplicasAreIndicesOfNodesAndAllocateNothing(t *testing.T) {
	v, err := NewView(seven())
	if err != nil {
		t.Fatal(err)
	}
	data, metadata := map[string]int{}, map[string]int{}
	var r Replicas
	for i := range uint64(2000) {
		v.Extent(layout.StreamHash("s"), i, &r)
		if len(r.Full()) != 3 || len(r.Partial()) != 2 {
			t.Fatalf("%d full and %d partial replicas", len(r.Full()), len(r.Partial()))
		}
		for k, n := range r.All() {
			node := v.Nodes[n]
			if node.Roles&Data == 0 || node.Partial != (k >= 3) {
				t.Fatalf("replica %d of an extent is %+v", k, node)
			}
			data[node.Name]++
		}
		v.Page(layout.StreamHash("s"), i, &r)
		if len(r.Full()) != 3 || len(r.Partial()) != 0 {
			t.Fatalf("a length page on %v", r.All())
		}
		for _, n := range r.All() {
			if v.Nodes[n].Roles&Metadata == 0 {
				t.Fatalf("a length page on %+v", v.Nodes[n])
			}
			metadata[v.Nodes[n].Name]++
		}
	}
	if len(data) != 6 || len(metadata) != 4 {
		t.Errorf("extents lie on %v, length pages on %v", data, metadata)
	}
	if n := testing.AllocsPerRun(100, func() {
		v.Extent(layout.Hash{}, 1, &r)
		v.Page(layout.Hash{}, 1, &r)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestNodeByName(t *testing.T) {
	v, err := NewView(seven())
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range v.Nodes {
		if got, ok := v.Node(n.Name); got != i || !ok {
			t.Errorf("node %q is %d, %v; want %d", n.Name, got, ok, i)
		}
	}
	if _, ok := v.Node("z"); ok {
		t.Error("there is a node z")
	}
}

func TestSources(t *testing.T) {
	f, err := NewFixed(seven())
	if err != nil {
		t.Fatal(err)
	}
	a, changed := f.View()
	if b, _ := f.View(); a != b || changed != nil {
		t.Error("a fixed view changes")
	}
	if _, err := NewFixed(Description{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no nodes: %v", err)
	}
	for _, addr := range []string{"127.0.0.1:7440", "unix:/run/rmatail.sock", "[fe80::1%eth0]:7440", "anything"} {
		v, _ := Single(addr).View()
		if i, ok := v.Node(addr); !ok || v.Nodes[i].Addr != addr || v.Store.Node != addr || v.Full != 1 || v.Quorum != 1 || v.MetadataQuorum != 1 {
			t.Errorf("single %s: %+v", addr, v.Description)
		}
		var r Replicas
		if v.Extent(layout.Hash{}, 5, &r); len(r.Full()) != 1 {
			t.Errorf("single %s: an extent on %v", addr, r.All())
		}
	}
}

func TestMistakes(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		change func(d *Description)
		want   []string // parts of the mistakes' text, in order, as field: text
	}{
		{func(d *Description) { d.Nodes = nil }, []string{"nodes: no node with the role data", "nodes: no node with the role metadata", "store.node: no node is called \"a\""}},
		{func(d *Description) { d.Name = "a b" }, []string{`name: "a b"; want 1 to 64`}},
		{func(d *Description) { d.Nodes[2].Name = "" }, []string{"nodes[2].name: \"\"; want 1 to 64"}},
		{func(d *Description) { d.Nodes[2].Name = long }, []string{"nodes[2].name"}},
		{func(d *Description) { d.Nodes[2].Name = "-b" }, []string{"nodes[2].name"}},
		{func(d *Description) { d.Nodes[2].Name = "b/1" }, []string{"nodes[2].name"}},
		{func(d *Description) { d.Nodes[4].Name = "b" }, []string{"nodes[4].name: \"b\" is the name of nodes[2] already"}},
		{func(d *Description) { d.Nodes[4].Addr = d.Nodes[2].Addr }, []string{"nodes[4].addr: \"10.0.0.3:7440\" is the address of node \"b\" already"}},
		{func(d *Description) { d.Nodes[3].Addr, d.Nodes[4].Addr = "Host:1", "hOST:1" }, []string{"nodes[4].addr: \"hOST:1\" is the address of node \"p\""}},
		{func(d *Description) { d.Nodes[2].Addr = "" }, []string{"nodes[2].addr: \"\"; want host:port"}},
		{func(d *Description) { d.Nodes[2].Addr = ":7440" }, []string{"nodes[2].addr"}},
		{func(d *Description) { d.Nodes[2].Addr = "host" }, []string{"nodes[2].addr"}},
		{func(d *Description) { d.Nodes[2].Addr = "host:0" }, []string{"nodes[2].addr"}},
		{func(d *Description) { d.Nodes[2].Addr = "host:65536" }, []string{"nodes[2].addr"}},
		{func(d *Description) { d.Nodes[2].Addr = "host:http" }, []string{"nodes[2].addr"}},
		{func(d *Description) { d.Nodes[2].Addr = "unix:relative" }, []string{"nodes[2].addr"}},
		{func(d *Description) { d.Nodes[2].Weight = 0 }, []string{"nodes[2].weight: 0; want 1 or more"}},
		{func(d *Description) { d.Nodes[1].Roles = 0 }, []string{"nodes[1].roles: 0x0; want data, metadata or both"}},
		{func(d *Description) { d.Nodes[1].Roles = 4 | Metadata }, []string{"nodes[1].roles: 0x6"}},
		{func(d *Description) { d.Nodes[1].Partial = true }, []string{"nodes[1].partial: true, on a node without the role data"}},
		{func(d *Description) { d.Full = 5 }, []string{"replicas.full: 5; want 1 to 4: there are 4 full data nodes"}},
		{func(d *Description) { d.Full = -1 }, []string{"replicas.full: -1; want 1 to 4"}},
		{func(d *Description) { d.Partial = 3 }, []string{"replicas.partial: 3; want 0 to 2: there are 2 partial data nodes"}},
		{func(d *Description) { d.Quorum = 4 }, []string{"replicas.quorum: 4; want 1 to 3, the full replicas"}},
		{func(d *Description) { d.Quorum = -2 }, []string{"replicas.quorum: -2"}},
		{func(d *Description) { d.MetadataReplicas = 5 }, []string{"replicas.metadata: 5; want 1 to 4: there are 4 metadata nodes"}},
		{func(d *Description) { d.MetadataQuorum = 1 }, []string{"replicas.metadata_quorum: 1; want 2 to 3, the majority"}},
		{func(d *Description) { d.MetadataReplicas, d.MetadataQuorum = 4, 2 }, []string{"replicas.metadata_quorum: 2; want 3 to 4"}},
		{func(d *Description) { d.Store.Node = "z" }, []string{"store.node: no node is called \"z\""}},
		{func(d *Description) { d.Store.Dir = "data" }, []string{"store.dir: \"data\"; want an absolute path"}},
		{func(d *Description) { d.TTL = time.Millisecond }, []string{"ttl: 1ms; want 1s to 8784h0m0s"}},
		{func(d *Description) { d.TTL = -time.Second }, []string{"ttl: -1s"}},
		{func(d *Description) { d.HedgeDelay = time.Minute }, []string{"hedge: 1m0s; want 1ms to 10s"}},
		{func(d *Description) {
			d.Nodes[0].Weight, d.Nodes[5].Addr, d.Quorum, d.Store.Node = 0, "x", 7, "y"
		}, []string{"nodes[0].weight", "nodes[5].addr", "replicas.quorum", "store.node"}},
	} {
		d := seven()
		c.change(&d)
		err := d.Validate()
		var got Mistakes
		if !errors.Is(err, ErrInvalid) || !errors.As(err, &got) || len(got) != len(c.want) {
			t.Errorf("want %q, got %v", c.want, err)
			continue
		}
		for i, m := range got {
			if !strings.HasPrefix(m.Field+": "+m.Text, c.want[i]) || !strings.Contains(err.Error(), m.Text) {
				t.Errorf("mistake %d is %q, want %q", i, m.Field+": "+m.Text, c.want[i])
			}
		}
		if _, err := NewView(d); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: NewView takes it: %v", c.want, err)
		}
	}
	d := seven()
	for i := range maxNodes {
		d.Nodes = append(d.Nodes, Node{Name: fmt.Sprint(i), Addr: fmt.Sprintf("h%d:1", i), Roles: Data, Weight: 1})
	}
	if err := d.Validate(); err == nil || !strings.Contains(err.Error(), "nodes: 4103 nodes") {
		t.Errorf("too many nodes: %v", err)
	}
	d = seven()
	d.Nodes[1].Addr, d.Store = "unix:/run/m.sock", Store{}
	if err := d.Validate(); err != nil {
		t.Errorf("a socket, and no store: %v", err)
	}
}
