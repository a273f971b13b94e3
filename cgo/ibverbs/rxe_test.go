//go:build linux && cgo && !noverbs

package ibverbs

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rxeEnd is one end of a connection on a soft-RoCE device.
type rxeEnd struct {
	ctx *Context
	gid GIDEntry
	pd  *PD
	cq  *CQ
	ch  *Channel
	mr  *MR
	mem []byte
	qp  *QP
}

func requireRxe(t *testing.T) {
	t.Helper()
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("needs soft-RoCE devices: RMATAIL_RXE is not set")
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newRxeEnd(t *testing.T, device, addr string, depth, size int, access Access) *rxeEnd {
	t.Helper()
	want := netip.MustParseAddr(addr).As16()
	e := &rxeEnd{ctx: must[*Context](t)(Open(device))}
	for _, g := range must[[]GIDEntry](t)(e.ctx.GIDTable()) {
		if g.GID == want && g.Type == GIDRoCEv2 {
			e.gid = g
		}
	}
	if e.gid.Port == 0 {
		t.Fatalf("%s has no GID for %s", device, addr)
	}
	e.mem = must[[]byte](t)(unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON))
	e.pd = must[*PD](t)(e.ctx.AllocPD())
	e.mr = must[*MR](t)(e.pd.RegMR(e.mem, access))
	e.ch = must[*Channel](t)(e.ctx.CreateChannel())
	e.cq = must[*CQ](t)(e.ctx.CreateCQ(8*depth, e.ch, 0)) // room for all that TestRxeSendQueueFull posts
	e.qp = must[*QP](t)(e.pd.CreateQP(e.cq, e.cq, depth, 1))
	t.Cleanup(func() {
		for _, f := range []func() error{e.qp.Destroy, e.cq.Destroy, e.ch.Destroy, e.mr.Dereg, e.pd.Dealloc, e.ctx.Close} {
			if err := f(); err != nil {
				t.Error(err)
			}
			if err := f(); !errors.Is(err, ErrDestroyed) {
				t.Errorf("destroyed twice: %v", err)
			}
		}
		if err := unix.Munmap(e.mem); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *rxeEnd) rtr(peer *rxeEnd) RTRAttr {
	return RTRAttr{
		Path:            Path{Port: e.gid.Port, GRH: &GlobalRoute{DGID: peer.gid.GID, SGIDIndex: e.gid.Index, HopLimit: 64}},
		PathMTU:         1024,
		DestQPN:         peer.qp.Num(),
		PSN:             7,
		MaxDestRdAtomic: 16,
	}
}

var rxeRTS = RTSAttr{PSN: 7, MaxRdAtomic: 16, AckTimeout: 67 * time.Millisecond, Retries: 6, RNRRetries: 6}

// rxePair returns a connected pair: the first end reads the second's memory.
func rxePair(t *testing.T, size int) (*rxeEnd, *rxeEnd) {
	t.Helper()
	requireRxe(t)
	a := newRxeEnd(t, os.Getenv("RMATAIL_RXE_DEV0"), os.Getenv("RMATAIL_RXE_ADDR0"), MaxReads, size, AccessLocalWrite)
	b := newRxeEnd(t, os.Getenv("RMATAIL_RXE_DEV1"), os.Getenv("RMATAIL_RXE_ADDR1"), 1, size, AccessRemoteRead)
	for i := range b.mem {
		b.mem[i] = byte(i*11 + i>>8)
	}
	for _, err := range []error{
		a.qp.ToInit(a.gid.Port, 0), b.qp.ToInit(b.gid.Port, AccessRemoteRead),
		a.qp.ToRTR(a.rtr(b)), b.qp.ToRTR(b.rtr(a)), // the responder stays in RTR
		a.qp.ToRTS(rxeRTS),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func TestRxeQueries(t *testing.T) {
	requireRxe(t)
	name := os.Getenv("RMATAIL_RXE_DEV0")
	found := false
	for _, d := range must[[]DeviceInfo](t)(Devices()) {
		found = found || d.Name == name && d.GUID != 0
	}
	if !found {
		t.Errorf("%s is not listed", name)
	}
	ctx := must[*Context](t)(Open(name))
	defer ctx.Close()
	dev := must[DeviceAttr](t)(ctx.QueryDevice())
	if dev.Ports != 1 || dev.MaxInitRdAtomic < 1 || dev.MaxRdAtomic < 1 || dev.MaxQPWR < MaxReads || dev.NodeGUID == 0 {
		t.Errorf("%+v", dev)
	}
	port := must[PortAttr](t)(ctx.QueryPort(1))
	if port.State != PortActive || port.Link != LinkEthernet || !port.ActiveMTU.Valid() || port.GIDs < 1 {
		t.Errorf("%+v", port)
	}
	one := must[[]GIDEntry](t)(ctx.gidsOneByOne(1))
	all := must[[]GIDEntry](t)(ctx.GIDTable())
	if len(all) == 0 || len(one) != len(all) {
		t.Errorf("%d GIDs one by one, %d at once", len(one), len(all))
	}
	for i := range all {
		if all[i].GID != one[i].GID || all[i].Index != one[i].Index || all[i].Type != GIDRoCEv2 {
			t.Errorf("%+v, asked for alone %+v", all[i], one[i])
		}
	}
	if _, err := ctx.QueryPort(2); err == nil {
		t.Error("port 2 exists")
	}
	if _, err := Open("no-such-device"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a device that is not there: %v", err)
	}
	if e, ok, err := ctx.TakeAsyncEvent(); ok || err != nil {
		t.Errorf("event out of nothing: %v %v", e, err)
	}
}

// TestRxeRefusals: what the kernel refuses says which transition and why.
func TestRxeRefusals(t *testing.T) {
	requireRxe(t)
	a := newRxeEnd(t, os.Getenv("RMATAIL_RXE_DEV0"), os.Getenv("RMATAIL_RXE_ADDR0"), 16, 4096, AccessLocalWrite)
	b := newRxeEnd(t, os.Getenv("RMATAIL_RXE_DEV1"), os.Getenv("RMATAIL_RXE_ADDR1"), 16, 4096, AccessRemoteRead)
	check := func(err error, errno syscall.Errno, parts ...string) {
		t.Helper()
		var m *ModifyError
		if !errors.As(err, &m) || !errors.Is(err, errno) || m.Hint == "" {
			t.Errorf("%v is no explained ModifyError with %v", err, errno)
			return
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%q lacks %q", err, p)
			}
		}
	}
	check(a.qp.ToInit(9, 0), syscall.EINVAL, "RESET to INIT", "port 9")
	if err := a.qp.ToInit(a.gid.Port, 0); err != nil {
		t.Fatal(err)
	}
	attr := a.rtr(b)
	attr.PathMTU = 1500
	check(a.qp.ToRTR(attr), syscall.EINVAL, "INIT to RTR", "MTU is not")
	attr = a.rtr(b)
	attr.Path.GRH.SGIDIndex = 200
	check(a.qp.ToRTR(attr), syscall.ENODATA, "sgid_index 200", "no entry")
	attr = a.rtr(b)
	attr.Path.GRH.DGID = [16]byte{}
	check(a.qp.ToRTR(attr), syscall.EINVAL, "peer GID empty")
	if err := a.qp.ToRTR(a.rtr(b)); err != nil {
		t.Fatal(err)
	}
	rts := rxeRTS
	rts.MaxRdAtomic = 200
	check(a.qp.ToRTS(rts), syscall.EINVAL, "RTR to RTS", "max_rd_atomic 200", "max_qp_init_rd_atom")
	if err := a.qp.ToRTS(rxeRTS); err != nil {
		t.Fatal(err)
	}
	q := must[QPAttr](t)(a.qp.Query())
	if q.State != RTS || q.PathMTU != 1024 || q.DestQPN != b.qp.Num() || q.MaxRdAtomic != 16 || q.Retries != 6 || q.AckTimeout != 67108864 {
		t.Errorf("%+v", q)
	}

	ro := must[[]byte](t)(unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANON))
	defer unix.Munmap(ro)
	if _, err := a.pd.RegMR(ro, AccessRemoteRead); !errors.Is(err, syscall.EFAULT) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only shared mapping: %v", err)
	}
	if err := a.pd.Dealloc(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("PD with queue pairs: %v", err)
	}
	if err := a.ch.Destroy(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("channel with a CQ: %v", err)
	}
}

// TestRxePostPoll reads in one call, with nothing allocated.
func TestRxePostPoll(t *testing.T) {
	a, b := rxePair(t, 1<<20)
	reads := make([]Read, 64)
	wcs := make([]WC, 16)
	for i := range reads {
		reads[i] = Read{ID: uint64(i), Remote: b.mr.Addr() + uint64(i)*4096, Local: uint64(i) * 4096, Length: 4096}
	}
	reads[len(reads)-1].Signaled = 1
	read := func() {
		c, err := a.qp.PostPoll(reads, a.mr, b.mr.RKey(), a.cq, wcs, 5*time.Second)
		if err != nil || c.Posted != len(reads) || c.Polled != 1 || wcs[0].Status != Success || wcs[0].ID != 63 {
			t.Fatalf("%+v %v, first completion %+v", c, err, wcs[0])
		}
	}
	if n := testing.AllocsPerRun(20, read); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
	if !bytes.Equal(a.mem[:64*4096], b.mem[:64*4096]) {
		t.Error("wrong bytes")
	}
	wait := func() {
		if _, err := a.cq.ArmPoll(wcs); err != nil {
			t.Fatal(err)
		}
		if n, err := a.cq.Poll(wcs, 0); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if ok, err := a.ch.TakeEvent(); ok || err != nil {
			t.Fatal("an event without a completion", err)
		}
	}
	if n := testing.AllocsPerRun(20, wait); n != 0 {
		t.Errorf("%v allocations a wait", n)
	}

	// An armed queue makes one event.
	if n, err := a.qp.Post(reads, a.mr, b.mr.RKey(), a.cq); n != len(reads) || err != nil {
		t.Fatal(n, err)
	}
	if n, err := a.cq.Poll(wcs, 5*time.Second); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if ok, err := a.ch.TakeEvent(); !ok || err != nil {
		t.Error("no event", err)
	}
	if ok, err := a.ch.TakeEvent(); ok || err != nil {
		t.Error("a second event", err)
	}

	// Refused before anything is posted.
	if c, err := a.qp.PostPoll(nil, a.mr, 0, a.cq, wcs, 0); !errors.Is(err, ErrTooMany) || c.Posted != 0 {
		t.Error(c, err)
	}
	if c, err := a.qp.PostPoll(make([]Read, MaxReads+1), a.mr, 0, a.cq, wcs, 0); !errors.Is(err, ErrTooMany) || c.Posted != 0 {
		t.Error(c, err)
	}
	for _, r := range []Read{{Local: 1 << 20, Length: 1}, {Local: 1<<20 - 1, Length: 2}, {Local: ^uint64(0), Length: 8}} {
		if c, err := a.qp.PostPoll([]Read{{Length: 8}, r}, a.mr, b.mr.RKey(), a.cq, wcs, 0); !errors.Is(err, syscall.ERANGE) || c.Posted != 0 {
			t.Error(c, err)
		}
	}
}

// TestRxeErrors: a read that fails completes, and so do all after it, signalled
// or not; those before it have their data.
func TestRxeErrors(t *testing.T) {
	a, b := rxePair(t, 64<<10)
	reads := make([]Read, 16)
	for i := range reads {
		reads[i] = Read{ID: uint64(i), Remote: b.mr.Addr() + uint64(i)*64, Local: uint64(i) * 64, Length: 64}
	}
	reads[8].Remote = b.mr.Addr() + b.mr.Len() - 63
	reads[15].Signaled = 1
	if n, err := a.qp.Post(reads, a.mr, b.mr.RKey(), a.cq); n != 16 || err != nil {
		t.Fatal(n, err)
	}
	wcs := make([]WC, 32)
	got := 0
	for got < 8 {
		n, err := a.cq.Poll(wcs[got:], 5*time.Second)
		if n == 0 || err != nil {
			t.Fatalf("%d completions, then %d %v", got, n, err)
		}
		got += n
	}
	for i, wc := range wcs[:got] {
		want := WRFlushErr
		if i == 0 {
			want = RemAccessErr
		}
		if wc.ID != uint64(8+i) || wc.Status != want || wc.QPN != a.qp.Num() {
			t.Errorf("completion %d: %+v", i, wc)
		}
	}
	if !bytes.Equal(a.mem[:8*64], b.mem[:8*64]) {
		t.Error("reads before the failed one have no data")
	}
	if q := must[QPAttr](t)(a.qp.Query()); q.State != Err {
		t.Errorf("queue pair is in %v", q.State)
	}
	// Posting is not refused now; it flushes.
	c, err := a.qp.PostPoll(reads[:1], a.mr, b.mr.RKey(), a.cq, wcs, 5*time.Second)
	if err != nil || c.Posted != 1 || c.Polled != 1 || wcs[0].Status != WRFlushErr {
		t.Errorf("%+v %v %+v", c, err, wcs[0])
	}
}

// TestRxeSendQueueFull: the part that fits stays posted.
func TestRxeSendQueueFull(t *testing.T) {
	requireRxe(t)
	a, b := rxePair(t, 64<<10)
	reads := make([]Read, MaxReads)
	for i := range reads {
		reads[i] = Read{ID: uint64(i), Remote: b.mr.Addr(), Length: 4096, Signaled: 1}
	}
	wcs := make([]WC, MaxReads)
	posted, polled := 0, 0
	for range 4 {
		n, err := a.qp.Post(reads, a.mr, b.mr.RKey(), a.cq)
		posted += n
		if err != nil {
			if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "full") {
				t.Error(err)
			}
			break
		}
	}
	for polled < posted {
		n, err := a.cq.Poll(wcs, 5*time.Second)
		if n == 0 || err != nil {
			t.Fatalf("%d of %d completed: %v", polled, posted, err)
		}
		polled += n
	}
	t.Logf("%d reads posted, %d completed", posted, polled)
}

// TestRxeGIDEvent takes the event of a new address, with its port.
func TestRxeGIDEvent(t *testing.T) {
	requireRxe(t)
	ctx := must[*Context](t)(Open(os.Getenv("RMATAIL_RXE_DEV0")))
	defer ctx.Close()
	netdev := os.Getenv("RMATAIL_RXE_NET0")
	changeAddr(t, "add", "10.9.77.1/24", netdev)
	t.Cleanup(func() { changeAddr(t, "del", "10.9.77.1/24", netdev) })
	fds := []unix.PollFd{{Fd: int32(ctx.AsyncFD()), Events: unix.POLLIN}}
	for deadline := time.Now().Add(10 * time.Second); ; {
		e, ok, err := ctx.TakeAsyncEvent()
		if err != nil {
			t.Fatal(err)
		}
		if ok && e.Type == EventGIDChange && e.Port == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no GID_CHANGE")
		}
		if !ok {
			if _, err := unix.Poll(fds, 100); err != nil && !errors.Is(err, syscall.EINTR) {
				t.Fatal(err)
			}
		}
	}
}

func changeAddr(t *testing.T, verb, addr, netdev string) {
	t.Helper()
	if out, err := exec.Command("ip", "addr", verb, addr, "dev", netdev).CombinedOutput(); err != nil {
		t.Fatalf("ip addr %s %s dev %s: %v: %s", verb, addr, netdev, err, out)
	}
}
