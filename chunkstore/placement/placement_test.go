package placement

import (
	"slices"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestSetsAreDistinct: no node is twice in a set, and partial nodes come last.
func TestSetsAreDistinct(t *testing.T) {
	var nodes []Node
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		nodes = append(nodes, Node{Name: n, Weight: 1, Partial: n >= "f"})
	}
	m, err := New(nodes, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	var s Set
	for i := range uint64(1000) {
		m.Of(layout.StreamHash("s"), i, &s)
		if len(s.Full()) != 3 || len(s.Partial()) != 2 {
			t.Fatalf("%d full and %d partial replicas, want 3 and 2", len(s.Full()), len(s.Partial()))
		}
		all := slices.Clone(s.All())
		slices.Sort(all)
		if len(slices.Compact(all)) != 5 || slices.Max(s.Full()) > 4 || slices.Min(s.Partial()) < 5 {
			t.Fatalf("key %d: full %v, partial %v", i, s.Full(), s.Partial())
		}
	}
}
