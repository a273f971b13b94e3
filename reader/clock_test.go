package reader

import (
	"testing"
	"time"
	"unsafe"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// setBack returns the time that time.Now would have returned at now with the wall
// clock set back by whole seconds: the monotonic reading is the same.
func setBack(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	const seconds = 30 // bit of the wall seconds in a Time that has a monotonic reading
	then := now
	*(*uint64)(unsafe.Pointer(&then)) -= uint64(by/time.Second) << seconds
	if then.Unix() != now.Add(-by).Unix() || then.Sub(now) != 0 {
		t.Fatalf("%v set back by %v is %v", now, by, then)
	}
	return then
}

// TestPathRestIgnoresTheWallClock: the clock is set back by an hour while a path
// rests for 50 ms.
func TestPathRestIgnoresTheWallClock(t *testing.T) {
	p := &path{memory: newFabric(t, 4<<20, 1, faults{})}
	now := time.Now()
	p.failed(now, errBroken)
	back := setBack(t, now, time.Hour)
	if p.up(back.Add(49*time.Millisecond)) || !p.up(back.Add(50*time.Millisecond)) {
		t.Fatal("want a rest of 50 ms whatever the wall clock says")
	}
	c := newCluster(Config{})
	defer c.cancel()
	node := newPeer(c, cluster.Node{Name: "fabric"})
	node.give(p)
	if at := node.backAt(back); at.Sub(back) != 50*time.Millisecond {
		t.Fatalf("the path is back in %v, want 50 ms", at.Sub(back))
	}
}
