package trace

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// wire is two netdevs with a cable between them. What is sent on the first comes
// to the second.
type wire struct{ a, b string }

func newWire(t *testing.T) wire {
	t.Helper()
	w := wire{fmt.Sprintf("rt%da", os.Getpid()%100000), fmt.Sprintf("rt%db", os.Getpid()%100000)}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: w.a, MTU: 9000}, PeerName: w.b}
	switch err := netlink.LinkAdd(pair); {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP):
		t.Skipf("no pair of netdevs to capture on: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(pair) })
	for _, name := range []string{w.a, w.b} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		// The kernel's own packets would come between.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
	}
	// Until the kernel has noticed the carrier it drops what is sent.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		a, err := netlink.LinkByName(w.a)
		if err != nil {
			t.Fatal(err)
		}
		if a.Attrs().OperState == netlink.OperUp {
			return w
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v", w.a, a.Attrs().OperState)
		}
	}
}

// send puts frames on a netdev as they are.
func (w wire) send(t *testing.T, frames ...[]byte) {
	t.Helper()
	dev, err := net.InterfaceByName(w.a)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, f := range frames {
		if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index}); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until the kernel has given so many frames to the capture, or had no
// room for them: what is sent comes a little later on a busy host.
func await(t *testing.T, src Source, frames uint64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		src.Lost()
		passed := src.(*live).passed
		if passed == frames {
			return
		}
		if passed > frames || time.Now().After(deadline) {
			t.Fatalf("%d frames passed the filter, %d were sent", passed, frames)
		}
	}
}

func openLive(t *testing.T, netdev string, c LiveConfig) Source {
	t.Helper()
	src, err := OpenLive(netdev, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	return src
}

// What was captured before Stop is all there after it, as it was on the wire.
func TestRealLiveCapture(t *testing.T) {
	w := newWire(t)
	src := openLive(t, w.b, LiveConfig{})
	tagged, six := newLink(), newLink()
	tagged.vlan = 77
	var frames [][]byte
	for i := range uint32(100) {
		frames = append(frames, tagged.request(i, 4096), tagged.responses(i, 4096)[0], six.request(i, 99), six.responses(i, 99)[0])
	}
	other := six.request(1, 1)
	other[37]++ // another port
	before := time.Now()
	w.send(t, append(append([][]byte{other}, frames...), other)...)
	await(t, src, uint64(len(frames)))
	src.Stop()
	for i, want := range frames {
		f, err := src.Next()
		if err != nil {
			t.Fatalf("frame %d of %d: %v", i, len(frames), err)
		}
		if string(f.Data) != string(want) || f.Length != len(want) || f.Link != layers.LinkTypeEthernet {
			t.Fatalf("frame %d: %d of %d bytes, length %d\n%x\nwant\n%x", i, len(f.Data), len(want), f.Length, f.Data, want)
		}
		if f.Time.Before(before.Add(-time.Second)) || f.Time.After(time.Now().Add(time.Second)) {
			t.Fatalf("frame %d at %v, now is %v", i, f.Time, time.Now())
		}
	}
	if f, err := src.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %+v, %v", f, err)
	}
	if n := src.Lost(); n != 0 {
		t.Errorf("%d frames lost", n)
	}
}

func TestRealLiveStopsOnASilentWire(t *testing.T) {
	w := newWire(t)
	src := openLive(t, w.b, LiveConfig{})
	done := make(chan error, 1)
	go func() {
		_, err := src.Next()
		done <- err
	}()
	src.Stop()
	select {
	case err := <-done:
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v, want io.EOF", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Next does not return")
	}
}

func TestRealLiveCutsAndCountsLosses(t *testing.T) {
	w := newWire(t)
	src := openLive(t, w.b, LiveConfig{Snaplen: 96, Buffer: 64 << 10})
	l := newLink()
	const sent = 2000
	for range sent / 100 {
		var frames [][]byte
		for i := range uint32(100) {
			frames = append(frames, l.responses(i, 4096)...)
		}
		w.send(t, frames...)
	}
	await(t, src, sent)
	src.Stop()
	got := uint64(0)
	for {
		f, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Data) != 96 || f.Length != 4096+62 {
			t.Fatalf("%d bytes of %d, want 96 of %d", len(f.Data), f.Length, 4096+62)
		}
		got++
	}
	if lost := src.Lost(); lost == 0 || got == 0 || got+lost != sent {
		t.Errorf("%d captured, %d lost, %d sent", got, lost, sent)
	}
}

func TestRealLiveErrors(t *testing.T) {
	if _, err := OpenLive("no-such-netdev", LiveConfig{}); !errors.Is(err, ErrNetdev) {
		t.Errorf("%v", err)
	}
	w := newWire(t)
	src := openLive(t, w.b, LiveConfig{})
	l, err := netlink.LinkByName(w.b)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetDown(l); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Next(); !errors.Is(err, ErrNetdev) {
		t.Errorf("netdev down: %v", err)
	}
}
