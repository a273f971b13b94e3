package rdma

import (
	"context"
	"errors"
	"log/slog"
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
