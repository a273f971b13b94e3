package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A small world, so that random tables and peers meet.
var (
	worldAddrs = []string{"::", "fe80::1", "fe80::2", "169.254.1.1", "10.9.0.1", "10.9.0.2", "10.8.0.1",
		"fd00:9::1", "fd00:9::2", "2001:db8::1", "::1", "127.0.0.1"}
	worldNetdevs = []string{"", "eth0", "eth2", "eth2.10"}
	worldRouters = []string{"", "10.9.0.254", "fe80::fe"}
)

func drawAddr(t *rapid.T, label string) netip.Addr {
	return netip.MustParseAddr(rapid.SampledFrom(worldAddrs).Draw(t, label))
}

func drawEntry(t *rapid.T) GIDEntry {
	a := drawAddr(t, "addr")
	e := GIDEntry{
		Port:     rapid.IntRange(1, 2).Draw(t, "port"),
		Index:    rapid.IntRange(0, 5).Draw(t, "index"),
		GID:      GIDFrom(a),
		Type:     GIDType(rapid.IntRange(0, 3).Draw(t, "type")),
		Netdev:   rapid.SampledFrom(worldNetdevs).Draw(t, "netdev"),
		Presence: Presence(rapid.IntRange(0, 3).Draw(t, "presence")),
	}
	if bits := rapid.SampledFrom([]int{-1, 8, 16, 24, 32}).Draw(t, "bits"); bits >= 0 {
		e.Prefix = netip.PrefixFrom(a.Unmap(), bits)
	}
	return e
}

func drawWant(t *rapid.T) GIDWant {
	w := GIDWant{
		PeerType:  GIDType(rapid.IntRange(0, 3).Draw(t, "peer type")),
		LinkLayer: LinkLayer(rapid.IntRange(0, 2).Draw(t, "link layer")),
		Explicit:  rapid.IntRange(-1, 6).Draw(t, "explicit"),
	}
	if rapid.Bool().Draw(t, "peer known") {
		w.Peer = drawAddr(t, "peer")
	}
	if rapid.Bool().Draw(t, "peer GID known") {
		w.PeerGID = GIDFrom(drawAddr(t, "peer GID"))
	}
	if rapid.Bool().Draw(t, "route known") {
		w.Route.Netdev = rapid.SampledFrom(worldNetdevs).Draw(t, "route netdev")
		w.Route.Source = drawAddr(t, "route source")
		if router := rapid.SampledFrom(worldRouters).Draw(t, "router"); router != "" {
			w.Route.Gateway = netip.MustParseAddr(router)
		}
	}
	return w
}

// usable is the rule of what may be chosen at all, said in another way.
func usable(e GIDEntry, w GIDWant) bool {
	roce := e.Type == TypeRoCEv1 || e.Type == TypeRoCEv2
	can := !e.GID.IsZero() && (roce || e.Type == TypeIB) &&
		(w.PeerType == TypeUnknown || w.PeerType == e.Type) &&
		!(w.LinkLayer == LinkLayerInfiniBand && roce) && !(w.LinkLayer == LinkLayerEthernet && !roce)
	if roce {
		can = can && e.Presence == Present &&
			(w.PeerGID.IsZero() || w.PeerGID.Addr().Is4() == e.GID.Addr().Is4())
	}
	if w.Explicit >= 0 {
		return can && e.Index == w.Explicit
	}
	if roce {
		can = can && (w.Route.Netdev == "" || w.Route.Netdev == e.Netdev) &&
			!(w.Route.Gateway.IsValid() && (e.Type == TypeRoCEv1 || e.GID.IsLinkLocal()))
	}
	return can
}

func TestChooseGIDProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.SliceOfN(rapid.Custom(drawEntry), 0, 12).Draw(t, "table")
		want := drawWant(t)
		before := fmt.Sprint(table)
		got, trace, err := ChooseGID(table, want)
		if fmt.Sprint(table) != before {
			t.Fatalf("the table was changed")
		}

		candidates := slices.DeleteFunc(slices.Clone(table), func(e GIDEntry) bool { return !usable(e, want) })
		if (err == nil) != (len(candidates) > 0) {
			t.Fatalf("%d usable entries, error %v\n%v", len(candidates), err, trace)
		}
		if err != nil {
			if !errors.Is(err, ErrNoGID) || got != (GIDEntry{}) {
				t.Fatalf("%v, %v", got, err)
			}
		} else {
			if !slices.Contains(candidates, got) {
				t.Fatalf("%v is not usable\n%v", got, trace)
			}
			for _, e := range candidates {
				if e.Type == TypeRoCEv2 && got.Type == TypeRoCEv1 {
					t.Fatalf("v1 %v, though %v can work", got, e)
				}
				if want.PeerType == TypeUnknown && want.Peer.Is4() && !want.Peer.IsLinkLocalUnicast() && want.PeerGID.IsZero() &&
					got.Type == e.Type && got.Type != TypeIB && got.GID.IsLinkLocal() && !e.GID.IsLinkLocal() {
					t.Fatalf("link-local %v, though %v can work", got, e)
				}
			}
		}

		// Neither the order nor rows without a GID matter.
		shuffled := rapid.Permutation(append(slices.Clone(table), GIDEntry{Port: 1, Index: 3, Type: TypeRoCEv2, Presence: Present})).Draw(t, "shuffled")
		again, againTrace, againErr := ChooseGID(shuffled, want)
		if again != got || fmt.Sprint(againErr) != fmt.Sprint(err) || againTrace.String() != trace.String() {
			t.Fatalf("%v %v\n%vin another order\n%v %v\n%v", got, err, trace, again, againErr, againTrace)
		}

		// Each live entry has one verdict, one at most is the choice.
		marked := 0
		for _, v := range trace {
			if v.Reason == "" {
				t.Fatalf("no reason: %v", v)
			}
			if v.Chosen {
				marked++
				if v.Entry != got {
					t.Fatalf("marked %v, chosen %v", v.Entry, got)
				}
			}
		}
		if (marked == 1) != (err == nil) || marked > 1 {
			t.Fatalf("%d marked, error %v", marked, err)
		}
	})
}
