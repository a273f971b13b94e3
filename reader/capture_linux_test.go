package reader_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rmatail/rmatail/rdma/roce"
)

// endPort is where the packet goes that ends a capture.
const endPort = roce.Port + 1

// startCapture counts the RoCE packets on a network device until stop is called,
// which returns when everything sent before it is counted.
func startCapture(t *testing.T, netdev string) (stop func() *roce.Summary) {
	t.Helper()
	h := roomyHandle(t, netdev)
	var s roce.Summary
	done := make(chan error, 1)
	go func() {
		for {
			data, info, err := h.ReadPacketData()
			if err != nil {
				done <- err
				return
			}
			p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.NoCopy)
			p.Metadata().CaptureInfo = info
			if udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && udp.DstPort == endPort {
				done <- nil
				return
			}
			if err := s.Add(p); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() *roce.Summary {
		t.Helper()
		defer h.Close()
		endCapture(t, netdev, done)
		if stats, err := h.Stats(); err != nil || stats.Drops > 0 {
			t.Fatalf("the capture lost packets: %+v, %v", stats, err)
		}
		return &s
	}
}

// roomyHandle opens a capture whose socket has room for all packets of a test;
// the default has it for some 70.
func roomyHandle(t *testing.T, netdev string) *pcapgo.EthernetHandle {
	t.Helper()
	const rmem = "/proc/sys/net/core/rmem_default"
	was, err := os.ReadFile(rmem)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rmem, []byte("67108864"), 0); err != nil {
		t.Fatalf("room for captured packets: %v", err)
	}
	defer os.WriteFile(rmem, was, 0)
	h, err := pcapgo.NewEthernetHandle(netdev)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// endCapture sends the packet that ends a capture until it has.
func endCapture(t *testing.T, netdev string, done <-chan error) {
	t.Helper()
	end, err := net.DialUDP("udp6", nil, &net.UDPAddr{IP: net.IPv6linklocalallnodes, Zone: netdev, Port: endPort})
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, err := end.Write([]byte("end of capture")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("capture: %v", err)
			}
			return
		case <-tick.C:
			if time.Now().After(deadline) {
				t.Fatal("the capture does not end")
			}
		}
	}
}
