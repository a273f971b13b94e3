package rdma

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

func TestUnderDeadline(t *testing.T) {
	failure := errors.New("refused")
	for name, c := range map[string]struct {
		takes time.Duration
		fails error
		late  bool
	}{
		"in time":        {time.Second, nil, false},
		"fails in time":  {time.Second, failure, false},
		"too late":       {3 * time.Second, nil, true},
		"fails too late": {3 * time.Second, failure, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			late := make(chan error, 1)
			mine, err := underDeadline(ctx, func() error {
				time.Sleep(c.takes) // the fake clock's
				return c.fails
			}, func(err error) { late <- err })
			switch {
			case mine == c.late:
				t.Errorf("%s: mine %v", name, mine)
			case !c.late && err != c.fails:
				t.Errorf("%s: %v", name, err)
			case c.late && (!errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second):
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			case c.late && <-late != c.fails:
				t.Errorf("%s: late got another error", name)
			}
			synctest.Wait()
			if len(late) != 0 {
				t.Errorf("%s: late was called too", name)
			}
		})
	}
}

func TestWatchHolds(t *testing.T) {
	w := &watch{port: 1, gidIndex: 3, gid: GID{15: 7}, gidType: TypeRoCEv2}
	row := func(port, index int, last byte, typ ibverbs.GIDType) ibverbs.GIDEntry {
		return ibverbs.GIDEntry{Port: port, Index: index, GID: GID{15: last}, Type: typ}
	}
	for name, c := range map[string]struct {
		row  ibverbs.GIDEntry
		want bool
	}{
		"unchanged":       {row(1, 3, 7, ibverbs.GIDRoCEv2), true},
		"type not told":   {row(1, 3, 7, ibverbs.GIDUnknown), true},
		"another GID":     {row(1, 3, 8, ibverbs.GIDRoCEv2), false},
		"the v1 twin":     {row(1, 3, 7, ibverbs.GIDRoCEv1), false},
		"moved":           {row(1, 4, 7, ibverbs.GIDRoCEv2), false},
		"on another port": {row(2, 3, 7, ibverbs.GIDRoCEv2), false},
	} {
		table := []ibverbs.GIDEntry{row(1, 0, 7, ibverbs.GIDRoCEv2), c.row}
		if got := w.holds(table); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if w.holds(nil) {
		t.Error("an empty table holds it")
	}
}

// TestEventsHitTheirPort: an event of one port loses nobody on another.
func TestEventsHitTheirPort(t *testing.T) {
	d := &openDevice{pool: NewPool(nil), name: "fake0", log: slog.New(slog.DiscardHandler)}
	d.mu.watches = make(map[*watch]struct{})
	lost := map[string]error{}
	for name, w := range map[string]*watch{
		"port 1": {port: 1, qpn: 10, cq: 1},
		"port 2": {port: 2, qpn: 20, cq: 2},
	} {
		w.dev = d
		w.lose = func(err error) { lost[name] = err }
		w.start()
	}
	d.handle(ibverbs.AsyncEvent{Type: ibverbs.EventPortErr, Port: 1})
	d.handle(ibverbs.AsyncEvent{Type: ibverbs.EventPortActive, Port: 1})
	d.handle(ibverbs.AsyncEvent{Type: ibverbs.EventCommEst, QPN: 10})
	if len(lost) != 0 {
		t.Errorf("lost by events that lose nobody: %v", lost)
	}
	d.handle(ibverbs.AsyncEvent{Type: ibverbs.EventQPFatal, QPN: 10})
	if len(lost) != 1 || !errors.Is(lost["port 1"], ErrDevice) {
		t.Errorf("QP_FATAL of one: %v", lost)
	}
	clear(lost)
	d.handle(ibverbs.AsyncEvent{Type: ibverbs.EventCQErr, CQ: 2})
	if len(lost) != 1 || !errors.Is(lost["port 2"], ErrDevice) {
		t.Errorf("CQ_ERR of one: %v", lost)
	}
	clear(lost)
	d.handle(ibverbs.AsyncEvent{Type: ibverbs.EventDeviceFatal})
	if len(lost) != 2 {
		t.Errorf("DEVICE_FATAL: %v", lost)
	}
}

// TestGIDEventHasThreeOutcomes: the GID is where it was, it is not, and nobody can
// tell. The last two lose the connections of the port, and of no other.
func TestGIDEventHasThreeOutcomes(t *testing.T) {
	d := &openDevice{pool: NewPool(nil), name: "fake0", log: slog.New(slog.DiscardHandler)}
	d.mu.watches = make(map[*watch]struct{})
	lost := map[string]error{}
	table := []ibverbs.GIDEntry{}
	for name, w := range map[string]*watch{
		"a": {port: 1, gidIndex: 1, gid: GID{15: 1}, gidType: TypeRoCEv2},
		"b": {port: 1, gidIndex: 2, gid: GID{15: 2}, gidType: TypeRoCEv2},
		"c": {port: 2, gidIndex: 1, gid: GID{15: 3}, gidType: TypeRoCEv2},
		"i": {port: 1, gidIndex: 0, gid: GID{15: 4}, gidType: TypeIB, lid: 7},
		"j": {port: 2, gidIndex: 0, gid: GID{15: 5}, gidType: TypeIB, lid: 9},
	} {
		w.dev, w.lose = d, func(err error) { lost[name] = err }
		w.start()
		kind := ibverbs.GIDRoCEv2
		if w.gidType == TypeIB {
			kind = ibverbs.GIDInfiniBand
		}
		table = append(table, ibverbs.GIDEntry{Port: w.port, Index: w.gidIndex, GID: w.gid, Type: kind})
	}
	without := func(last byte) []ibverbs.GIDEntry {
		return slices.DeleteFunc(slices.Clone(table), func(e ibverbs.GIDEntry) bool { return e.GID[15] == last })
	}
	unreadable := errors.New("EIO")
	for _, c := range []struct {
		name  string
		event func()
		want  string
		cause error
	}{
		{"unchanged", func() { d.judgeGIDs(1, table, nil) }, "", nil},
		{"one is gone", func() { d.judgeGIDs(1, without(2), nil) }, "b", ErrGIDChanged},
		{"one of another port is gone", func() { d.judgeGIDs(1, without(3), nil) }, "", nil},
		{"all are gone", func() { d.judgeGIDs(2, nil, nil) }, "cj", ErrGIDChanged},
		{"unreadable", func() { d.judgeGIDs(1, nil, unreadable) }, "abi", unreadable},
		{"same LID", func() { d.judgeLID(1, 7, nil) }, "", nil},
		{"another LID", func() { d.judgeLID(1, 8, nil) }, "i", ErrGIDChanged},
		{"the other port's LID", func() { d.judgeLID(2, 7, nil) }, "j", ErrGIDChanged},
		{"LID unreadable", func() { d.judgeLID(2, 9, unreadable) }, "j", unreadable},
	} {
		clear(lost)
		c.event()
		if got := strings.Join(slices.Sorted(maps.Keys(lost)), ""); got != c.want {
			t.Errorf("%s: lost %q, want %q", c.name, got, c.want)
		}
		for name, err := range lost {
			if !errors.Is(err, c.cause) || !errors.Is(err, ErrGIDChanged) || Decide(err) != Retryable {
				t.Errorf("%s: %s is lost with %v", c.name, name, err)
			}
		}
	}
}
