package placement

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// named returns n full nodes of weight 1.
func named(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("node-%d", i+1), Weight: 1}
	}
	return nodes
}

func newMap(t testing.TB, nodes []Node, full, partial int) *Map {
	t.Helper()
	m, err := New(nodes, full, partial)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// shards are the keys of streams of 120 shards each.
func shards(streams int) (keys []layout.Hash) {
	for s := range streams {
		for n := range 120 {
			keys = append(keys, layout.Shard{Stream: fmt.Sprintf("stream-%d", s), Number: uint32(n)}.Hash(uint64(1000*s+n)))
		}
	}
	return keys
}

// namesOf are the names behind indices.
func namesOf(nodes []Node, indices []uint16) (names []string) {
	for _, i := range indices {
		names = append(names, nodes[i].Name)
	}
	return names
}

// TestSetsAreDistinct: no node is twice in a set, partial nodes come last, and
// where there are too few nodes the set is smaller.
func TestSetsAreDistinct(t *testing.T) {
	var nodes []Node
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		nodes = append(nodes, Node{Name: n, Weight: 1, Partial: n >= "f"})
	}
	for _, c := range []struct{ full, partial, wantFull, wantPartial int }{
		{3, 2, 3, 2}, {1, 0, 1, 0}, {3, 1, 3, 1}, {5, 2, 5, 2}, {9, 7, 5, 2},
	} {
		m := newMap(t, nodes, c.full, c.partial)
		var s Set
		for i := range uint64(1000) {
			m.Of(layout.StreamHash("s"), i, &s)
			if len(s.Full()) != c.wantFull || len(s.Partial()) != c.wantPartial {
				t.Fatalf("%d full and %d partial replicas, want %d and %d", len(s.Full()), len(s.Partial()), c.wantFull, c.wantPartial)
			}
			all := slices.Clone(s.All())
			slices.Sort(all)
			if len(slices.Compact(all)) != c.wantFull+c.wantPartial || slices.Max(s.Full()) > 4 || c.wantPartial > 0 && slices.Min(s.Partial()) < 5 {
				t.Fatalf("key %d: full %v, partial %v", i, s.Full(), s.Partial())
			}
		}
	}
}

func TestMapRefusesWhatItCannotPlace(t *testing.T) {
	three := named(3)
	for name, c := range map[string]struct {
		nodes         []Node
		full, partial int
	}{
		"no full replica":      {three, 0, 1},
		"negative partial":     {three, 1, -1},
		"more than MaxReplica": {three, MaxReplicas, 1},
		"weight 0":             {[]Node{{Name: "a"}}, 1, 0},
		"a name twice":         {[]Node{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "a", Weight: 2, Partial: true}}, 1, 1},
		"too many nodes":       {named(math.MaxUint16 + 1), 1, 0},
	} {
		if _, err := New(c.nodes, c.full, c.partial); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
	m := newMap(t, nil, 3, 0)
	var s Set
	if m.Of(layout.Hash{}, 0, &s); len(s.All()) != 0 {
		t.Errorf("%d replicas without nodes", len(s.All()))
	}
}

// TestOrderOfNodesDoesNotMatter: the same nodes in another order hold the same
// keys, in the same order of preference.
func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := named(12)
	for i := range nodes {
		nodes[i].Weight, nodes[i].Partial = 1+r.Uint32N(5), i%4 == 3
	}
	m := newMap(t, nodes, 3, 2)
	for range 20 {
		other := slices.Clone(nodes)
		r.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		o := newMap(t, other, 3, 2)
		for number := range uint64(500) {
			var a, b Set
			m.Of(layout.StreamHash("s"), number, &a)
			o.Of(layout.StreamHash("s"), number, &b)
			if x, y := namesOf(nodes, a.All()), namesOf(other, b.All()); !slices.Equal(x, y) {
				t.Fatalf("key %d is on %v, and on %v when the nodes are in another order", number, x, y)
			}
		}
	}
}

// TestEqualScoresAreOrderedByName: a tie is decided the same way in every order.
func TestEqualScoresAreOrderedByName(t *testing.T) {
	m := newMap(t, named(3), 3, 0)
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		var best [MaxReplicas]uint16
		var scores [MaxReplicas]float64
		n := 0
		for _, node := range order {
			n = m.insert(best[:], scores[:], n, 3, node, 1)
		}
		for i := 1; i < n; i++ {
			if m.nodes[best[i-1]].hash >= m.nodes[best[i]].hash {
				t.Errorf("inserted in order %v, equal scores come out as %v", order, best[:n])
			}
		}
	}
}

func TestPlacingDoesNotAllocate(t *testing.T) {
	m := newMap(t, named(20), 3, 2)
	h := layout.StreamHash("s")
	var s Set
	number := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		m.Of(h, number, &s)
		number++
	}); n != 0 {
		t.Errorf("%g allocations a key", n)
	}
}

// TestGoldens: which nodes hold a key is a contract between versions and machines.
// A change of these values needs a way to move a running cluster.
func TestGoldens(t *testing.T) {
	nodes := []Node{
		{Name: "alpha", Weight: 1}, {Name: "bravo", Weight: 2}, {Name: "charlie", Weight: 1}, {Name: "delta", Weight: 1},
		{Name: "echo", Weight: 3, Partial: true}, {Name: "foxtrot", Weight: 1, Partial: true}, {Name: "golf", Weight: 5}, {Name: "127.0.0.1:7440", Weight: 1},
	}
	m := newMap(t, nodes, 3, 1)
	for _, g := range []struct {
		key    layout.Hash
		number uint64
		want   []string
	}{
		{layout.Hash{}, 0, []string{"bravo", "golf", "delta", "echo"}},
		{layout.StreamHash("logs"), 0, []string{"golf", "127.0.0.1:7440", "alpha", "echo"}},
		{layout.StreamHash("logs"), 1, []string{"golf", "bravo", "charlie", "echo"}},
		{layout.Shard{Stream: "logs"}.Hash(1), 0, []string{"bravo", "golf", "alpha", "echo"}},
		{layout.Shard{Stream: "logs", Number: 7}.Hash(0xfeedface), 1 << 40, []string{"127.0.0.1:7440", "bravo", "delta", "echo"}},
		{layout.Shard{Stream: "metrics", Number: 119}.Hash(1 << 63), math.MaxUint64, []string{"bravo", "golf", "alpha", "echo"}},
	} {
		var s Set
		m.Of(g.key, g.number, &s)
		if got := namesOf(nodes, s.All()); !slices.Equal(got, g.want) {
			t.Errorf("key %x, %d is on %q, want %q", g.key, g.number, got, g.want)
		}
	}
	for _, g := range []struct {
		u    float64
		bits uint64
	}{
		{0.5 / (1 << 52), 0xc0425e4f7b2737fa}, {1e-9, 0xc034b927f32bffb8}, {0.3, 0xbff34378fcbda720},
		{0.5, 0xbfe62e42fefa39ef}, {0.75, 0xbfd269621134db92}, {1 - 0.5/(1<<52), 0xbca0000000000000},
	} {
		if got := math.Float64bits(ln(g.u)); got != g.bits {
			t.Errorf("ln(%g) has the bits %#x, want %#x", g.u, got, g.bits)
		}
	}
}

// TestLogarithm compares with math.Log, and at the ends with what bounds a score.
func TestLogarithm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	check := func(u float64) {
		got, want := ln(u), math.Log(u)
		if !(math.Abs(got-want) <= 1e-13*math.Abs(want)) || !(got < 0) {
			t.Errorf("ln(%g) = %g, want %g", u, got, want)
		}
	}
	for _, u := range []float64{0.5 / (1 << 52), math.Sqrt2 / 2, math.Nextafter(math.Sqrt2/2, 0), 0.5, math.Nextafter(0.5, 0), 0.25, 1 - 0.5/(1<<52)} {
		check(u)
	}
	for range 20_000 {
		check(1 - r.Float64()/float64(uint64(1)<<r.UintN(40)) - 1e-16)
		check((float64(r.Uint64()>>12) + 0.5) / (1 << 52))
	}
}

// TestEveryHashScores: each of the extreme hashes gives a positive, finite score.
func TestEveryHashScores(t *testing.T) {
	inverse := new(big.Int).ModInverse(new(big.Int).SetUint64(0xd6e8feb86659fd93), new(big.Int).Lsh(big.NewInt(1), 64)).Uint64()
	unmix := func(x uint64) uint64 { // x ^ x>>32 is its own inverse
		x ^= x >> 32
		x *= inverse
		x ^= x >> 32
		x *= inverse
		return x ^ x>>32
	}
	c := candidate{weight: math.MaxUint32}
	for _, x := range []uint64{0, 1, 1 << 11, 1 << 12, 1 << 63, math.MaxUint64, math.MaxUint64 - 1<<12, math.MaxUint64 - 1<<11} {
		key := unmix(x)
		if mix(key) != x {
			t.Fatalf("mix(%#x) = %#x, want %#x: it is no bijection any more", key, mix(key), x)
		}
		if s := c.score(key); !(s > 0) || math.IsInf(s, 0) {
			t.Errorf("hash %#x scores %g", x, s)
		}
	}
}

// FuzzSets holds any list of nodes to what callers rely on.
func FuzzSets(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x81, 0x82}, uint64(0), uint8(3), uint8(2))
	f.Add([]byte{}, uint64(1<<40), uint8(1), uint8(0))
	f.Add([]byte{9}, uint64(7), uint8(16), uint8(0))
	f.Fuzz(func(t *testing.T, weights []byte, number uint64, full, partial uint8) {
		if len(weights) > 200 {
			return
		}
		nodes := make([]Node, len(weights))
		there := map[bool]int{}
		for i, w := range weights {
			nodes[i] = Node{Name: fmt.Sprint(i), Weight: uint32(w&0x7f)*uint32(w&0x7f)*1000 + 1, Partial: w&0x80 != 0}
			there[nodes[i].Partial]++
		}
		m, err := New(nodes, int(full), int(partial))
		if (full < 1 || int(full)+int(partial) > MaxReplicas) != (err != nil) {
			t.Fatalf("%d and %d replicas: %v", full, partial, err)
		}
		if err != nil {
			return
		}
		var s, again Set
		m.Of(layout.StreamHash("s"), number, &s)
		if len(s.Full()) != min(int(full), there[false]) || len(s.Partial()) != min(int(partial), there[true]) {
			t.Fatalf("%d full and %d partial replicas of %d and %d, with %v nodes", len(s.Full()), len(s.Partial()), full, partial, there)
		}
		seen := map[uint16]bool{}
		for i, n := range s.All() {
			if seen[n] || nodes[n].Partial != (i >= len(s.Full())) {
				t.Fatalf("set %v of nodes %v", s.All(), nodes)
			}
			seen[n] = true
		}
		slices.Reverse(nodes)
		r := newMap(t, nodes, int(full), int(partial))
		r.Of(layout.StreamHash("s"), number, &again)
		for i, n := range again.All() {
			if len(weights)-1-int(n) != int(s.All()[i]) {
				t.Fatalf("set %v, reversed %v", s.All(), again.All())
			}
		}
	})
}
