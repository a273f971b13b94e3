package reader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// busyStore sheds so many questions about lengths before it answers; negative: all.
func busyStore(most int) (s scriptStore, asked *int) {
	asked = new(int)
	s = endless(7)
	s.stat = func() (durable.Info, error) {
		if *asked++; most < 0 || *asked <= most {
			return durable.Info{}, &wire.Error{Status: wire.StatusBusy, Message: "64 requests of this connection wait already"}
		}
		return durable.Info{Incarnation: 7, First: 100, Length: 5000}, nil
	}
	return s, asked
}

// TestFabricOpenedWhileBusy: a node that sheds load is asked again, ever more seldom, and
// a Reader begins where the shard does.
func TestFabricOpenedWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := busyStore(12)
		c := bareCluster(t, s)
		defer c.Close()
		r, err := c.Reader(t.Context(), "busy/0", Earliest())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Position() != 100 || *asked != 13 {
			t.Errorf("begins at %d after %d questions, want 100 after 13", r.Position(), *asked)
		}
	})
}

// TestFabricOpenedWhileBusyForLong: who has no patience left learns that it was for load,
// and not that the store is away; and is soon told when he gives up.
func TestFabricOpenedWhileBusyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := busyStore(-1)
		c := bareCluster(t, s)
		defer c.Close()
		for _, from := range []From{Earliest(), Latest(), At(3)} {
			*asked = 0
			began := time.Now()
			_, err := c.Reader(t.Context(), "busy/0", from)
			if !errors.Is(err, wire.ErrBusy) || !strings.Contains(err.Error(), "wait already") || errors.Is(err, errEarliest) {
				t.Errorf("%+v: %v, want the node's own words", from, err)
			}
			// Rests are 125 ms on average once they have grown.
			if took := time.Since(began); took < durableTimeout/2 || took > durableTimeout || *asked < 10 || *asked > 200 {
				t.Errorf("%+v: %d questions in %s", from, *asked, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := c.Reader(ctx, "busy/0", Earliest()); !errors.Is(err, wire.ErrBusy) || time.Since(began) != 300*time.Millisecond {
			t.Errorf("%v after %s, want busy at the deadline of 300 ms", err, time.Since(began))
		}
	})
}

// TestFabricOpenedWithoutStore: the cache says where a shard ends, not where it begins; why
// the store did not is in the error.
func TestFabricOpenedWithoutStore(t *testing.T) {
	f := newFabric(t, 16<<20, 1, faults{})
	w := newFabricWriter(t, f)
	c := fabricCluster(t, f, w.store)
	defer c.Close()
	w.append(1000)
	w.publish(0)
	away := errors.New("no way there")
	w.store.set(func(s *positionStore) { s.err = away })
	shard := w.shard.String()
	if _, err := c.Reader(t.Context(), shard, Earliest()); !errors.Is(err, errEarliest) || !errors.Is(err, away) {
		t.Errorf("%v, want that the first position is unknown, and why", err)
	}
	r, err := c.Reader(t.Context(), shard, Latest())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Position() != 1000 {
		t.Errorf("at %d, want the cache's end at 1000", r.Position())
	}
}
