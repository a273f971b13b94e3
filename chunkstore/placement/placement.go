// Package placement decides which nodes hold a key: weighted rendezvous hashing,
// pure and the same everywhere, so that writers, readers and repair agree without
// talking.
//
// Every node gets a score for a key, -weight / ln(u), where u in (0, 1) is a hash
// of the node's name and the key; the nodes with the greatest scores are the
// key's replica set. (The logarithmic method: Schindelhauer and Schomaker, SPAA
// 2005.) Full replicas are drawn among the nodes that are not partial, partial
// ones among those that are.
//
// What follows from scores that know nothing of the other nodes:
//
//   - A node that joins or leaves moves only the keys which it gains or loses, and
//     of each only its own replica: all other scores stay as they were.
//   - The greatest score of a key falls on a node in proportion to its weight. A node
//     holds at most one replica of a key, so that with more replicas the shares of
//     heavy nodes are less than in proportion: sampling without replacement.
//   - The keys of a lost node fall evenly, by weight, to all others.
//   - Keys are placed independently of each other. Among n keys the busiest of a few
//     nodes has by chance about 1.4 standard deviations more than the mean: at 240
//     keys, 3 replicas and 9 nodes 14 %, at 16 times as many keys 3 %.
//
// The scores are a contract between versions: a release that computes others makes
// every cache miss until its replicas have moved. Goldens hold them.
package placement

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

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
	hash    uint64 // of the name; no two nodes of a Map have the same
	weight  float64
	partial bool
}

// New returns the Map of nodes that gives each key full full replicas and partial
// partial ones, or fewer where there are fewer such nodes. The order of nodes
// decides only the indices in a Set. Errors match ErrConfig.
func New(nodes []Node, full, partial int) (*Map, error) {
	if full < 1 || partial < 0 || full+partial > MaxReplicas {
		return nil, fmt.Errorf("%w: %d full and %d partial replicas, want 1 or more full ones and at most %d in all", ErrConfig, full, partial, MaxReplicas)
	}
	if len(nodes) > math.MaxUint16 {
		return nil, fmt.Errorf("%w: %d nodes, want at most %d", ErrConfig, len(nodes), math.MaxUint16)
	}
	m := &Map{nodes: make([]candidate, len(nodes)), full: full, partial: partial}
	for i, n := range nodes {
		if n.Weight == 0 {
			return nil, fmt.Errorf("%w: node %q has weight 0, want 1 or more", ErrConfig, n.Name)
		}
		m.nodes[i] = candidate{hash: nameHash(n.Name), weight: float64(n.Weight), partial: n.Partial}
	}
	return m, m.checkNames(nodes)
}

// checkNames reports two nodes that would score the same.
func (m *Map) checkNames(nodes []Node) error {
	byHash := make([]int, len(nodes))
	for i := range byHash {
		byHash[i] = i
	}
	slices.SortFunc(byHash, func(a, b int) int { return cmp.Compare(m.nodes[a].hash, m.nodes[b].hash) })
	for i := 1; i < len(byHash); i++ {
		if a, b := byHash[i-1], byHash[i]; m.nodes[a].hash == m.nodes[b].hash {
			return fmt.Errorf("%w: nodes %q and %q have the same name, or names with one hash: rename one", ErrConfig, nodes[a].Name, nodes[b].Name)
		}
	}
	return nil
}

// Of sets s to the replica set of the key (hash, number). It does not allocate.
func (m *Map) Of(hash layout.Hash, number uint64, s *Set) {
	key := keyHash(hash, number)
	var scores [MaxReplicas]float64
	full, partial := 0, 0
	for i := range m.nodes {
		score := m.nodes[i].score(key)
		if m.nodes[i].partial {
			partial = m.insert(s.nodes[m.full:], scores[m.full:], partial, m.partial, i, score)
		} else {
			full = m.insert(s.nodes[:], scores[:], full, m.full, i, score)
		}
	}
	copy(s.nodes[full:], s.nodes[m.full:m.full+partial])
	s.full, s.all = uint8(full), uint8(full+partial)
}

// insert puts a node among the n best so far, by falling score, of which at most
// most are kept, and returns how many there are now.
func (m *Map) insert(best []uint16, scores []float64, n, most, node int, score float64) int {
	i := n
	for i > 0 && (score > scores[i-1] || score == scores[i-1] && m.nodes[node].hash < m.nodes[best[i-1]].hash) {
		i--
	}
	if i >= most {
		return n
	}
	n = min(n+1, most)
	copy(best[i+1:n], best[i:n-1])
	copy(scores[i+1:n], scores[i:n-1])
	best[i], scores[i] = uint16(node), score
	return n
}
