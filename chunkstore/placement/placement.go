// Package placement decides which nodes hold a key: weighted rendezvous hashing,
// pure and the same everywhere, so that writers, readers and repair agree without
// talking.
//
// Every node gets a score for a key, -weight / ln(u), where u in (0, 1) is a hash
// of the node's name and the key; the nodes with the greatest scores are the
// key's replica set. A node's share is then in proportion to its weight, and a
// node that joins or leaves moves only the keys which it gains or loses: all other
// scores stay as they were. (The
// logarithmic method: Schindelhauer and Schomaker, SPAA 2005.)
//
// Full replicas are drawn among the nodes that are not partial, partial ones among
// those that are.
package placement

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// ErrConfig is returned when nodes or counts cannot make a map.
var ErrConfig = errors.New("placement")

// MaxReplicas bounds the replicas of one key, full and partial together.
const MaxReplicas = 16

// Node is one that may hold keys.
type Node struct {
	Name    string // unique; decides what the node holds
	Weight  uint32 // share, in proportion to the others' weights; at least 1
	Partial bool   // holds only what it has room for
}

// Set is the replica set of one key: indices into the nodes of the Map, full
// replicas first, each part by falling score.
type Set struct {
	nodes     [MaxReplicas]uint16
	full, all uint8
}

// Full returns the full replicas; they are s's.
func (s *Set) Full() []uint16 { return s.nodes[:s.full] }

// Partial returns the partial replicas; they are s's.
func (s *Set) Partial() []uint16 { return s.nodes[s.full:s.all] }

// All returns full and partial replicas; they are s's.
func (s *Set) All() []uint16 { return s.nodes[:s.all] }

// Rename replaces each index i by names[i]: those of the Map by the caller's.
func (s *Set) Rename(names []uint16) {
	for i, n := range s.nodes[:s.all] {
		s.nodes[i] = names[n]
	}
}

// Map places keys on nodes. It never changes; any number of goroutines may use it.
type Map struct {
	nodes         []candidate
	full, partial int
}

type candidate struct {
	hash    uint64
	weight  float64
	partial bool
}

// New returns the Map of nodes that gives each key full full replicas and partial
// partial ones, or fewer where there are fewer such nodes.
func New(nodes []Node, full, partial int) (*Map, error) {
	if full < 1 || partial < 0 || full+partial > MaxReplicas {
		return nil, fmt.Errorf("%w: %d full and %d partial replicas, want 1 or more full ones and at most %d in all", ErrConfig, full, partial, MaxReplicas)
	}
	if len(nodes) > math.MaxUint16 {
		return nil, fmt.Errorf("%w: %d nodes", ErrConfig, len(nodes))
	}
	m := &Map{nodes: make([]candidate, len(nodes)), full: full, partial: partial}
	for i, n := range nodes {
		if n.Weight == 0 {
			return nil, fmt.Errorf("%w: node %q has weight 0, want 1 or more", ErrConfig, n.Name)
		}
		h := layout.StreamHash("node/" + n.Name)
		m.nodes[i] = candidate{hash: word(h, 0) ^ word(h, 8), weight: float64(n.Weight), partial: n.Partial}
	}
	return m, nil
}

// Of sets s to the replica set of the key (hash, number). It does not allocate.
func (m *Map) Of(hash layout.Hash, number uint64, s *Set) {
	key := mix(word(hash, 0) ^ mix(word(hash, 8)^mix(number)))
	var scores [MaxReplicas]float64
	full, partial := 0, 0
	for i := range m.nodes {
		c := &m.nodes[i]
		score := c.score(key)
		if c.partial {
			partial = insert(s.nodes[m.full:], scores[m.full:], partial, m.partial, uint16(i), score)
		} else {
			full = insert(s.nodes[:], scores[:], full, m.full, uint16(i), score)
		}
	}
	copy(s.nodes[full:], s.nodes[m.full:m.full+partial])
	s.full, s.all = uint8(full), uint8(full+partial)
}

// score is greater the better the node suits the key.
func (c *candidate) score(key uint64) float64 {
	// 53 bits make a float in (0, 1) exactly.
	u := (float64(mix(c.hash^key)>>11) + 0.5) / (1 << 53)
	return -c.weight / math.Log(u)
}

// insert keeps the most nodes with the greatest scores, in order.
func insert(nodes []uint16, scores []float64, n, most int, node uint16, score float64) int {
	i := n
	for i > 0 && score > scores[i-1] {
		i--
	}
	if i >= most {
		return n
	}
	n = min(n+1, most)
	copy(nodes[i+1:n], nodes[i:n-1])
	copy(scores[i+1:n], scores[i:n-1])
	nodes[i], scores[i] = node, score
	return n
}

// mix is a bijection of 64 bits in which every bit of the input moves every bit of
// the result (a multiply-fold over two odd constants).
func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	x = hi ^ lo
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>29
}

func word(h layout.Hash, i int) (w uint64) {
	for b := range 8 {
		w |= uint64(h[i+b]) << (8 * b)
	}
	return w
}
