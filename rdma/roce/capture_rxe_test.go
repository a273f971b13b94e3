//go:build linux

package roce_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/roce"
)

const (
	chunk    = 4096
	endPort  = roce.Port + 1
	inFlight = 8 // READs of a batch: their packets fit the capture's socket buffer
)

func rxe(t *testing.T, what, n string) string {
	t.Helper()
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("needs soft-RoCE devices: RMATAIL_RXE is not set")
	}
	v := os.Getenv("RMATAIL_RXE_" + what + n)
	if v == "" {
		t.Fatalf("RMATAIL_RXE is set, RMATAIL_RXE_%s%s is not", what, n)
	}
	return v
}

// capture counts the RoCE packets on a netdev until stop, which returns when all
// that were sent before it are counted.
type capture struct {
	netdev  string
	handle  *pcapgo.EthernetHandle
	done    chan error
	packets atomic.Uint64 // RoCE packets so far
	summary roce.Summary  // the goroutine's until done
}

func startCapture(t *testing.T, netdev string) *capture {
	t.Helper()
	handle, err := pcapgo.NewEthernetHandle(netdev)
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{netdev: netdev, handle: handle, done: make(chan error, 1)}
	go func() {
		for {
			frame, info, err := handle.ReadPacketData()
			if err != nil {
				c.done <- err
				return
			}
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
			p.Metadata().CaptureInfo = info
			if udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && udp.DstPort == endPort {
				c.done <- nil
				return
			}
			if err := c.summary.Add(p); err != nil {
				c.done <- err
				return
			}
			if p.Layer(roce.LayerTypeBTH) != nil {
				c.packets.Add(1)
			}
		}
	}()
	return c
}

// await waits until so many RoCE packets are counted: who sends on before can
// overrun the capture.
func (c *capture) await(t *testing.T, packets uint64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); c.packets.Load() < packets; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d packets captured, %d are expected", c.packets.Load(), packets)
		}
	}
}

// stop sends a packet that the capture knows as its end, again and again: the
// first one may be dropped like any other.
func (c *capture) stop(t *testing.T) *roce.Summary {
	t.Helper()
	end, err := net.DialUDP("udp6", nil, &net.UDPAddr{IP: net.IPv6linklocalallnodes, Zone: c.netdev, Port: endPort})
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	defer c.handle.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := end.Write([]byte("end of capture")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-c.done:
			if err != nil {
				t.Fatalf("capture: %v", err)
			}
			stats, err := c.handle.Stats()
			if err != nil || stats.Drops != 0 {
				t.Fatalf("the capture lost packets: %+v, %v", stats, err)
			}
			return &c.summary
		case <-tick.C:
			if time.Now().After(deadline) {
				t.Fatal("the capture does not end")
			}
		}
	}
}

// connect makes a connection that reads mem from device 1 over device 0.
func connect(t *testing.T, mem []byte) *rdma.Conn {
	t.Helper()
	side := func(n string) (rdma.Config, netip.Addr) {
		cfg := rdma.DefaultConfig()
		cfg.Device = rxe(t, "DEV", n)
		return cfg, netip.MustParseAddr(rxe(t, "ADDR", n))
	}
	reader, from := side("0")
	exporter, to := side("1")
	export, err := rdma.NewExport(exporter, mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = export.Close() })
	dial, err := rdma.Prepare(reader, to)
	if err != nil {
		t.Fatal(err)
	}
	answer, responder, err := export.Accept(t.Context(), dial.Offer(), to, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = responder.Close() })
	conn, err := dial.Finish(t.Context(), answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// read reads consecutive pieces of size bytes and compares them.
func read(t *testing.T, conn *rdma.Conn, c *capture, mem []byte, size, pieces int) {
	t.Helper()
	batch, err := conn.NewBatch(inFlight * chunk)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	for n := 0; n < pieces; n += inFlight {
		batch.Reset()
		var got [inFlight][]byte
		for i := range got {
			if got[i] = batch.Add(uint64((n+i)*size), size); got[i] == nil {
				t.Fatalf("no room for piece %d of %d bytes", i, size)
			}
		}
		if err := batch.Post(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := batch.Wait(); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if off := (n + i) * size; !bytes.Equal(got[i], mem[off:off+size]) {
				t.Fatalf("wrong bytes at %d", off)
			}
		}
		c.await(t, uint64(2*(n+inFlight)))
	}
}

// What crosses the wire while chunks are read: READ requests and one response
// packet each, at path MTU 4096; nothing that the serving end's software sees.
func TestRxeOneSided(t *testing.T) {
	netdev := rxe(t, "NET", "0")
	const pieces = 512
	mem, err := unix.Mmap(-1, 0, pieces*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	seed := rand.NewChaCha8([32]byte{7})
	_, _ = seed.Read(mem)
	conn := connect(t, mem)

	for _, size := range []int{chunk, 99, 8} { // 99: one byte of pad
		capture := startCapture(t, netdev)
		read(t, conn, capture, mem, size, pieces)
		s := capture.stop(t)
		if err := s.OneSided(); err != nil {
			t.Errorf("%d bytes: %v\n%v", size, err, s)
		}
		total := s.Total()
		requests, responses := total.Packets[roce.ReadRequest], total.Packets[roce.ReadResponseOnly]
		// A slow host may let a request time out; what is sent again for that
		// reason is known by its PSN.
		if requests+responses-total.Repeated != 2*pieces || total.ReadResponses() != responses {
			t.Errorf("%d reads of %d bytes took %d requests and %d responses, %d of them repeated\n%v", pieces, size, requests, responses, total.Repeated, s)
		}
		if total.Repeated == 0 && (total.Requested != uint64(pieces*size) || total.Bytes[roce.ReadResponseOnly] != uint64(pieces*size)) {
			t.Errorf("%d bytes requested, %d answered, want %d\n%v", total.Requested, total.Bytes[roce.ReadResponseOnly], pieces*size, s)
		}
		t.Logf("%d READs of %d bytes:\n%v", pieces, size, s)
	}
}
