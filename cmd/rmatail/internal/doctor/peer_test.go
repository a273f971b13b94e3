package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// fakeMemory is a node's memory, and a way to it that may fail after some reads.
type fakeMemory struct {
	mem   []byte
	fails int // reads until it does; -1 never
	err   error
}

type fakeBatch struct {
	m    *fakeMemory
	off  []uint64
	into [][]byte
}

func (b *fakeBatch) Add(off uint64, n int) []byte {
	if off+uint64(n) > uint64(len(b.m.mem)) {
		return nil
	}
	b.off, b.into = append(b.off, off), append(b.into, make([]byte, n))
	return b.into[len(b.into)-1]
}
func (b *fakeBatch) Post(time.Time) error {
	if b.m.fails == 0 {
		return b.m.err
	}
	b.m.fails--
	return nil
}
func (b *fakeBatch) Wait() error {
	for i, off := range b.off {
		copy(b.into[i], b.m.mem[off:])
	}
	return nil
}
func (b *fakeBatch) Reset()   { b.off, b.into = nil, nil }
func (b *fakeBatch) Release() {}

func (m *fakeMemory) way(transport string) way {
	return way{transport, uint64(len(m.mem)), func(int) (batch, error) { return &fakeBatch{m: m}, nil }}
}

func newTrial() *trial {
	return &trial{PeerConfig: PeerConfig{Addr: "node:1", For: 4 * time.Millisecond}, peer: &Peer{Addr: "node:1"}}
}

func TestPeerIsMeasuredAndCompared(t *testing.T) {
	good := &fakeMemory{mem: bytes.Repeat([]byte{7}, 1<<20), fails: -1}
	tr := newTrial()
	m, ok := tr.measured("peer-tcp", good.way("tcp"), "")
	if !ok || m.Reads == 0 || m.Batched < atOnce || m.Rate <= 0 || m.P50 > m.P99 || m.P50 <= 0 {
		t.Errorf("%+v, %v", m, ok)
	}
	if _, ok := tr.measured("peer-rdma", good.way("rdma"), ""); !ok || len(tr.peer.Measured) != 2 {
		t.Errorf("%+v", tr.peer)
	}
	tr.compare()
	last := tr.peer.findings[len(tr.peer.findings)-1]
	if last.Check != "peer-best" || !strings.Contains(last.Found, "times as long as TCP") {
		t.Errorf("%+v", last)
	}
	// Other bytes than TCP's: another node's memory.
	other := &fakeMemory{mem: bytes.Repeat([]byte{8}, 1<<20), fails: -1}
	if _, ok := tr.measured("peer-shm", other.way("shm"), ""); ok {
		t.Error("another node's memory passes")
	}
	if f := tr.peer.findings[len(tr.peer.findings)-1]; f.Verdict != Fail || !strings.Contains(f.Found, "another node's memory") {
		t.Errorf("%+v", f)
	}
	r := Report{RDMA: true, Findings: []Finding{{Check: "devices"}}}.With(*tr.peer)
	if r.Verdict != Fail || len(r.Findings) != 5 || r.Peer == nil || !r.RDMA {
		t.Errorf("%+v", r)
	}
}

func TestPeerThatStopsAnswering(t *testing.T) {
	for after, found := range map[int]string{0: "the first read failed", 5: "reading stopped after"} {
		tr := newTrial()
		gone := &fakeMemory{mem: make([]byte, 1<<20), fails: after, err: errors.New("no answer")}
		if _, ok := tr.measured("peer-rdma", gone.way("rdma"), ""); ok {
			t.Errorf("after %d reads: passes", after)
		}
		if f := tr.peer.findings[0]; f.Verdict != Fail || !strings.Contains(f.Found, found) || !strings.Contains(strings.Join(f.Fix, " "), "UDP port 4791") {
			t.Errorf("after %d reads: %+v", after, f)
		}
	}
	tr := newTrial()
	if _, ok := tr.measured("peer-tcp", (&fakeMemory{mem: make([]byte, 100), fails: -1}).way("tcp"), ""); ok {
		t.Error("a memory without a header passes")
	}
}

// Each way to fail leads to its own command.
func TestFixes(t *testing.T) {
	choice := rdma.Choice{GID: rdma.GIDEntry{Netdev: "eth2"}}
	addr := netip.MustParseAddr("10.9.0.2")
	for _, c := range []struct {
		fix  []string
		want string
	}{
		{dialFix("n:7440", fmt.Errorf("x: %w", syscall.ECONNREFUSED)), "rmatail serve --listen n:7440"},
		{dialFix("n:7440", &net.DNSError{Err: "no such host"}), "getent hosts n"},
		{dialFix("n:7440", wire.ErrVersion), "rmatail version"},
		{dialFix("n:7440", wire.ErrHeaderCRC), "curl -s http://n:7440/healthz"},
		{dialFix("n:7440", os.ErrDeadlineExceeded), "ip route get n"},
		{dialFix("n:7440", errors.New("other")), "rmatail stat"},
		{rtrFix(&ibverbs.ModifyError{Errno: syscall.ETIMEDOUT}, choice, addr, ""), "ping -c 3 -I eth2 10.9.0.2"},
		{rtrFix(&wire.Error{Status: wire.StatusInternal, Message: "ibv_modify_qp: connection timed out"}, choice, addr, "there: "), "there: ping -c 3"},
		{rtrFix(&ibverbs.ModifyError{Errno: syscall.ENODEV}, choice, addr, ""), "network namespace"},
		{rtrFix(rdma.ErrIncompatible, choice, addr, ""), "rmatail doctor --all"},
		{rtrFix(context.DeadlineExceeded, choice, addr, ""), "ip neigh show dev eth2"},
		{rtrFix(errors.New("other"), choice, addr, ""), "rmatail doctor"},
		{completionFix(&rdma.CompletionError{Status: ibverbs.LocQPOpErr}, choice), "ip link show dev eth2"},
		{completionFix(&rdma.CompletionError{Status: ibverbs.RemAccessErr}, choice), "rmatail stat"},
	} {
		if !strings.Contains(strings.Join(c.fix, "\n"), c.want) {
			t.Errorf("%q, want %q", c.fix, c.want)
		}
	}
	if fix := completionFix(errors.New("other"), choice); fix != nil {
		t.Errorf("%q", fix)
	}
}

func TestNoWayToThePeer(t *testing.T) {
	tr := newTrial()
	tr.cannotPrepare(netip.MustParseAddr("192.0.2.1"), &rdma.NoDeviceError{Cause: "set the device", Reasons: []rdma.DeviceReason{{Device: "mlx5_0", Port: 1, Err: errors.New("on eth2; the route leaves by eth0")}}})
	f := tr.peer.findings[0]
	if f.Verdict != Warn || !strings.Contains(f.Found, "no RDMA device of this host leads to 192.0.2.1: set the device") || len(f.Details) != 1 || !strings.Contains(f.Details[0], "mlx5_0 port 1: on eth2") {
		t.Errorf("%+v", f)
	}
	tr = newTrial()
	tr.cannotPrepare(netip.MustParseAddr("192.0.2.1"), ibverbs.ErrNoLibrary)
	if f := tr.peer.findings[0]; f.Verdict != Fail || !strings.Contains(f.Found, "libibverbs.so.1") {
		t.Errorf("%+v", f)
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{"100 Gb/sec (4X EDR)": 12.5e9, "2.5 Gb/sec (1X SDR)": 312.5e6, "": 0, "fast": 0} {
		if got := parseRate(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for netdev, want := range map[int]int{1500: 1024, 4175: 2048, 4176: 4096, 9000: 4096, 65536: 4096, 300: 256} {
		if got := roceMTU(netdev, rxeHeaders); got != want {
			t.Errorf("netdev MTU %d: %d, want %d", netdev, got, want)
		}
	}
	for text, want := range map[string]string{"6.1.0-57-amd64": "[6 1 0]", "5.14.20-300.fc35": "[5 14 20]", "6.18": "[6 18]", "": "[]", "x": "[]"} {
		if got := fmt.Sprint(versionOf(text)); got != want {
			t.Errorf("version of %q: %s, want %s", text, got, want)
		}
	}
}
