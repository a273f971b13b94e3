package trace

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/gopacket/layers"
	"golang.org/x/net/bpf"

	"github.com/rmatail/rmatail/rdma/roce"
)

// passes runs the filter as the kernel does.
func passes(tb testing.TB, frame []byte) int {
	tb.Helper()
	vm, err := bpf.NewVM(filter(96))
	if err != nil {
		tb.Fatal(err)
	}
	n, err := vm.Run(frame)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func filterFrames() map[string][]byte {
	l, tagged, six, both := newLink(), newLink(), newLink(), newLink()
	tagged.vlan, both.vlan = 5, 6
	six.reader, six.memory = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	both.reader, both.memory = six.reader, six.memory
	doubly := bytes.Clone(l.request(1, 64)[:12])
	doubly = append(doubly, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 2)
	return map[string][]byte{
		"IPv4": l.request(1, 64), "VLAN": tagged.request(1, 64), "IPv6": six.request(1, 64), "VLAN IPv6": both.request(1, 64),
		"two VLANs": append(doubly, l.request(1, 64)[12:]...),
	}
}

func TestFilter(t *testing.T) {
	for name, f := range filterFrames() {
		if n := passes(t, f); n != 96 {
			t.Errorf("%s: the filter keeps %d bytes, want 96", name, n)
		}
		if name == "two VLANs" {
			continue
		}
		ip := 14
		if name[0] == 'V' {
			ip = 18
		}
		port := bytes.Clone(f)
		port[bytes.Index(f, []byte{0x12, 0xb7})+1]++
		protocol := bytes.Clone(f)
		protocol[map[byte]int{4: ip + 9, 6: ip + 6}[f[ip]>>4]] = 6
		for what, g := range map[string][]byte{"port": port, "protocol": protocol, "ARP": append(bytes.Clone(f[:ip-2]), 0x08, 0x06, 0, 1), "short": f[:ip+8], "nothing": nil} {
			if n := passes(t, g); n != 0 {
				t.Errorf("%s, another %s: the filter keeps %d bytes", name, what, n)
			}
		}
		if f[ip]>>4 == 4 {
			fragment := bytes.Clone(f)
			fragment[ip+7] = 1
			if n := passes(t, fragment); n != 0 {
				t.Errorf("%s, later fragment: the filter keeps %d bytes", name, n)
			}
		}
	}
}

// FuzzFilter: what a trace can use passes the filter.
func FuzzFilter(f *testing.F) {
	for _, b := range filterFrames() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p roce.Packet
		err := p.Decode(layers.LinkTypeEthernet, data)
		useful := err == nil || errors.Is(err, roce.ErrICRC)
		if useful && passes(t, data) == 0 {
			t.Errorf("the filter drops %+v", p)
		}
	})
}
