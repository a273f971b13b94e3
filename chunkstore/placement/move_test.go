package placement

import (
	"math"
	"slices"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

const movedKeys = 5000

// moved compares the keys of two maps and returns how many have changed. A key that
// has may differ only by gained, which it has more than before, and by one replica
// that gave way: the last one, or lost itself.
func moved(t *testing.T, before, after []Node, full, partial int, gained, lost string) (changed int) {
	t.Helper()
	a, b := newMap(t, before, full, partial), newMap(t, after, full, partial)
	h := layout.StreamHash("s")
	for i := range uint64(movedKeys) {
		var x, y Set
		a.Of(h, i, &x)
		b.Of(h, i, &y)
		old, now := namesOf(before, x.All()), namesOf(after, y.All())
		if slices.Equal(old, now) {
			continue
		}
		changed++
		without := func(names []string, out string) []string {
			return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == out })
		}
		rest, kept := without(now, gained), without(old, lost)
		if gained != "" && (len(rest) != len(now)-1 || !slices.Equal(rest, kept[:len(rest)])) {
			t.Fatalf("key %d was on %v and is on %v: more has moved than %s gains", i, old, now, gained)
		}
		if lost != "" && (len(kept) != len(old)-1 || !slices.Equal(kept, rest[:len(kept)])) {
			t.Fatalf("key %d was on %v and is on %v: more has moved than %s loses", i, old, now, lost)
		}
	}
	return changed
}

// near holds a count of movedKeys to a probability, within 5 standard deviations.
func near(t *testing.T, what string, count int, p float64) {
	t.Helper()
	sigma := math.Sqrt(movedKeys * p * (1 - p))
	if math.Abs(float64(count)-movedKeys*p) > 5*sigma {
		t.Errorf("%s moves %d of %d keys, want %.0f +- %.0f", what, count, movedKeys, movedKeys*p, 5*sigma)
	}
}

// TestJoinAndLeaveMoveOnlyWhatTheNodeHolds: with 3 replicas a tenth node changes
// 3 of 10 sets by one replica each, and 9 others do when it leaves.
func TestJoinAndLeaveMoveOnlyWhatTheNodeHolds(t *testing.T) {
	ten := named(10)
	for i := range ten {
		with, without := ten, slices.Delete(slices.Clone(ten), i, i+1)
		joined := moved(t, without, with, 3, 0, ten[i].Name, "")
		near(t, "a joining node", joined, 3.0/10)
		if left := moved(t, with, without, 3, 0, "", ten[i].Name); left != joined {
			t.Errorf("%s gains %d keys when it joins and loses %d when it leaves", ten[i].Name, joined, left)
		}
		if i == 0 {
			t.Logf("report: placement: a tenth node moves one of the 3 replicas of %.1f %% of the keys (a share: 30 %%)", 100*float64(joined)/movedKeys)
		}
	}
}

// TestPartialNodesMoveOnlyPartialReplicas: one that joins leaves the full ones alone.
func TestPartialNodesMoveOnlyPartialReplicas(t *testing.T) {
	var before []Node
	for i, n := range named(12) {
		n.Partial = i >= 8
		before = append(before, n)
	}
	after := append(slices.Clone(before), Node{Name: "late", Weight: 1, Partial: true})
	near(t, "a joining partial node", moved(t, before, after, 3, 2, "late", ""), 2.0/5)
	a, b := newMap(t, before, 3, 2), newMap(t, after, 3, 2)
	for i := range uint64(movedKeys) {
		var x, y Set
		a.Of(layout.StreamHash("s"), i, &x)
		b.Of(layout.StreamHash("s"), i, &y)
		if !slices.Equal(x.Full(), y.Full()) {
			t.Fatalf("key %d: full replicas %v became %v", i, x.Full(), y.Full())
		}
	}
}

// TestWeightMovesOnlyTheNodesOwnKeys: a heavier node gains, and nothing moves
// between the others.
func TestWeightMovesOnlyTheNodesOwnKeys(t *testing.T) {
	before := named(9)
	after := slices.Clone(before)
	after[4].Weight = 2
	a, b := newMap(t, before, 3, 0), newMap(t, after, 3, 0)
	gained := 0
	for i := range uint64(movedKeys) {
		var x, y Set
		a.Of(layout.StreamHash("s"), i, &x)
		b.Of(layout.StreamHash("s"), i, &y)
		has, had := slices.Contains(y.Full(), 4), slices.Contains(x.Full(), 4)
		switch {
		case had && !has:
			t.Fatalf("key %d was on the node and is not since it is heavier", i)
		case has && !had:
			gained++
			if rest := slices.DeleteFunc(slices.Clone(y.Full()), func(n uint16) bool { return n == 4 }); !slices.Equal(rest, x.Full()[:2]) {
				t.Fatalf("key %d was on %v and is on %v", i, x.Full(), y.Full())
			}
		case has == had && !has && !slices.Equal(x.Full(), y.Full()):
			t.Fatalf("key %d was on %v and is on %v, without the node", i, x.Full(), y.Full())
		}
	}
	weights := []float64{1, 1, 1, 1, 2, 1, 1, 1, 1}
	near(t, "twice the weight", gained, inclusion(weights, 3)[4]-3.0/9)
}
