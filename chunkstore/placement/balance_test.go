package placement

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// load counts the replicas that each node gets of the extents [from[i], from[i]+extents)
// of each shard.
func load(m *Map, keys []layout.Hash, from []uint64, extents uint64) []int {
	counts := make([]int, len(m.nodes))
	var s Set
	for i, h := range keys {
		for e := range extents {
			m.Of(h, from[i]+e, &s)
			for _, n := range s.All() {
				counts[n]++
			}
		}
	}
	return counts
}

// busiest is the load of the busiest node, as a multiple of the mean.
func busiest(counts []int) float64 {
	sum := 0
	for _, c := range counts {
		sum += c
	}
	return float64(slices.Max(counts)) * float64(len(counts)) / float64(sum)
}

// moment draws how far each shard has come at one moment.
func moment(r *rand.Rand, shards int) []uint64 {
	at := make([]uint64, shards)
	for i := range at {
		at[i] = r.Uint64N(1 << 32)
	}
	return at
}

// TestLoadIsBalanced: 240 shards (2 streams of 120), 9 nodes, 3 full replicas. What
// the nodes hold, and what each of them is sent while every shard gets 512 KiB more,
// stays below 1.15 of the mean.
func TestLoadIsBalanced(t *testing.T) {
	m, keys := newMap(t, named(9), 3, 0), shards(2)
	if got := busiest(load(m, keys, make([]uint64, len(keys)), 100)); got >= 1.15 {
		t.Errorf("of the first 100 extents of each shard the busiest node has %.3f of the mean", got)
	} else {
		t.Logf("report: placement: 240 shards on 9 nodes, 3 replicas, 100 extents a shard: the busiest node has %.3f of the mean", got)
	}
	const moments = 150
	r := rand.New(rand.NewPCG(5, 6))
	worst := 0.0
	for range moments {
		worst = max(worst, busiest(load(m, keys, moment(r, len(keys)), 8)))
	}
	if worst >= 1.15 {
		t.Errorf("of the last 8 extents of each shard the busiest node has %.3f of the mean at one of %d moments", worst, moments)
	}
	t.Logf("report: placement: the last 8 extents (512 KiB) of each shard, worst of %d moments: %.3f of the mean", moments, worst)
}

// TestTailsAreBalancedAsWellAsChanceAllows is about the 240 extents that are written
// at one moment: too few keys for 1.15 at every moment. They are as even as independent draws
// are, which is what the package promises, and no more.
func TestTailsAreBalancedAsWellAsChanceAllows(t *testing.T) {
	m, keys := newMap(t, named(9), 3, 0), shards(2)
	const moments = 1000
	r := rand.New(rand.NewPCG(7, 8))
	var placed, drawn []float64
	for range moments {
		placed = append(placed, busiest(load(m, keys, moment(r, len(keys)), 1)))
		counts := make([]int, 9)
		for range keys {
			for _, n := range r.Perm(9)[:3] {
				counts[n]++
			}
		}
		drawn = append(drawn, busiest(counts))
	}
	slices.Sort(placed)
	slices.Sort(drawn)
	below, _ := slices.BinarySearch(placed, 1.15)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		i := int(q * moments)
		// Steps of the busiest node's count are 1/80 of the mean.
		if math.Abs(placed[i]-drawn[i]) > 1.5/80 {
			t.Errorf("quantile %g of the busiest node is %.3f of the mean, %.3f for independent draws", q, placed[i], drawn[i])
		}
	}
	t.Logf("report: placement: only the tail extents of one moment: median %.3f of the mean, p99 %.3f, below 1.15 at %.0f %% of %d moments (independent draws: %.3f, %.3f)",
		placed[moments/2], placed[moments*99/100], 100*float64(below)/moments, moments, drawn[moments/2], drawn[moments*99/100])
}

// TestAnyPairOfNodesSharesItsPartOfTheKeys: what a lost node held is spread evenly
// over all others, so that none of them gets its whole load.
func TestAnyPairOfNodesSharesItsPartOfTheKeys(t *testing.T) {
	const nodes, keys = 9, 40_000
	m := newMap(t, named(nodes), 3, 0)
	var pairs [nodes][nodes]int
	var s Set
	h := layout.StreamHash("s")
	for i := range uint64(keys) {
		m.Of(h, i, &s)
		for _, a := range s.Full() {
			for _, b := range s.Full() {
				pairs[a][b]++
			}
		}
	}
	const p = 3.0 / 9 * 2 / 8
	want, sigma := keys*p, math.Sqrt(keys*p*(1-p))
	for a := range nodes {
		for b := range a {
			if d := math.Abs(float64(pairs[a][b]) - want); d > 5*sigma {
				t.Errorf("nodes %d and %d share %d keys, want %.0f +- %.0f", a, b, pairs[a][b], want, 5*sigma)
			}
		}
	}
}

// inclusion computes how likely each node is one of k that are drawn without
// replacement, by weight.
func inclusion(weights []float64, k int) []float64 {
	p := make([]float64, len(weights))
	var draw func(drawn uint, left, probability float64, k int)
	draw = func(drawn uint, left, probability float64, k int) {
		for i, w := range weights {
			if drawn&(1<<i) != 0 {
				continue
			}
			q := probability * w / left
			p[i] += q
			if k > 1 {
				draw(drawn|1<<i, left-w, q, k-1)
			}
		}
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	draw(0, sum, 1, k)
	return p
}

// TestWeightsAreShares: the first replica falls on a node in proportion to its
// weight, the set is a weighted draw without replacement, and full and partial
// nodes do not compete.
func TestWeightsAreShares(t *testing.T) {
	weights := []float64{1, 1, 2, 3, 1, 4, 8, 1}
	partial := []bool{false, false, false, false, true, true, false, true}
	var nodes []Node
	group := map[bool][]float64{}
	for i, n := range named(len(weights)) {
		n.Weight, n.Partial = uint32(weights[i]), partial[i]
		nodes = append(nodes, n)
		group[n.Partial] = append(group[n.Partial], weights[i])
	}
	const keys = 40_000
	m := newMap(t, nodes, 3, 2)
	first, held := make([]int, len(nodes)), make([]int, len(nodes))
	var s Set
	h := layout.StreamHash("s")
	for i := range uint64(keys) {
		m.Of(h, i, &s)
		first[s.Full()[0]]++
		first[s.Partial()[0]]++
		for _, n := range s.All() {
			held[n]++
		}
	}
	wantFirst := map[bool][]float64{false: inclusion(group[false], 1), true: inclusion(group[true], 1)}
	wantHeld := map[bool][]float64{false: inclusion(group[false], 3), true: inclusion(group[true], 2)}
	rank := map[bool]int{}
	for i, n := range nodes {
		k := rank[n.Partial]
		rank[n.Partial]++
		for what, c := range map[string]struct {
			got  int
			want float64
		}{"first replica": {first[i], wantFirst[n.Partial][k]}, "a replica": {held[i], wantHeld[n.Partial][k]}} {
			sigma := math.Sqrt(keys * c.want * (1 - c.want))
			if math.Abs(float64(c.got)-keys*c.want) > 5*sigma {
				t.Errorf("node %d of weight %d holds %s of %d keys, want %.0f +- %.0f", i, n.Weight, what, c.got, keys*c.want, 5*sigma)
			}
		}
	}
}
