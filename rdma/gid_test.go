package rdma

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestGIDText(t *testing.T) {
	for _, c := range []struct {
		text, want, addr string
		linkLocal        bool
	}{
		// As sysfs prints them: eight groups of four digits.
		{"0000:0000:0000:0000:0000:ffff:0a09:0001\n", "::ffff:10.9.0.1", "10.9.0.1", false},
		{"fe80:0000:0000:0000:0205:a1ff:fe0b:0c0d", "fe80::205:a1ff:fe0b:c0d", "fe80::205:a1ff:fe0b:c0d", true},
		{"0000:0000:0000:0000:0000:ffff:a9fe:0102", "::ffff:169.254.1.2", "169.254.1.2", true},
		{"fd00:0009:0000:0000:0000:0000:0000:0001", "fd00:9::1", "fd00:9::1", false},
		{"febf::1", "febf::1", "febf::1", true}, // fe80::/10, not /16
		{"fec0::1", "fec0::1", "fec0::1", false},
		{"0000:0000:0000:0000:0000:0000:0000:0000", "::", "::", false},
	} {
		g, err := ParseGID(c.text)
		if err != nil {
			t.Errorf("ParseGID(%q): %v", c.text, err)
			continue
		}
		if g.String() != c.want || g.Addr() != netip.MustParseAddr(c.addr) || g.IsLinkLocal() != c.linkLocal {
			t.Errorf("%q: %v, address %v, link-local %v", c.text, g, g.Addr(), g.IsLinkLocal())
		}
		if g.IsZero() != (c.want == "::") {
			t.Errorf("%q: IsZero %v", c.text, g.IsZero())
		}
		if GIDFrom(g.Addr()) != g {
			t.Errorf("%q: GIDFrom(Addr) is %v", c.text, GIDFrom(g.Addr()))
		}
	}
	if got := GIDFrom(netip.Addr{}); !got.IsZero() {
		t.Errorf("GIDFrom of no address: %v", got)
	}
}

func TestGIDTextRefused(t *testing.T) {
	long := strings.Repeat("0", 4096)
	for _, text := range []string{"", "\n", "10.9.0.1", "fe80::1%eth0", "0000:0000", "fe80::1 x", "(null)", long} {
		_, err := ParseGID(text)
		if !errors.Is(err, ErrBadGID) {
			t.Errorf("ParseGID(%.20q): %v, want ErrBadGID", text, err)
		} else if len(err.Error()) > 120 {
			t.Errorf("message of %d bytes for %d bytes of input", len(err.Error()), len(text))
		}
	}
}

func FuzzParseGID(f *testing.F) {
	f.Add("0000:0000:0000:0000:0000:ffff:0a09:0001\n")
	f.Add("fe80:0000:0000:0000:0205:a1ff:fe0b:0c0d")
	f.Add("::ffff:1.2.3.4")
	f.Add("fe80::1%25eth0")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGID(text)
		if err != nil {
			if g != (GID{}) {
				t.Errorf("%q: an error and %v", text, g)
			}
			return
		}
		if again, err := ParseGID(g.String()); err != nil || again != g {
			t.Errorf("%q: %v, then %v (%v)", text, g, again, err)
		}
		if g.IsZero() != (g == GID{}) || !g.Addr().IsValid() {
			t.Errorf("%q: zero %v, address %v", text, g.IsZero(), g.Addr())
		}
	})
}
