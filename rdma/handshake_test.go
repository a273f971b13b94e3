package rdma

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

func testEndpoint() endpoint {
	return endpoint{
		link:    LinkLayerEthernet,
		gidType: TypeRoCEv2,
		mtu:     4096,
		qpn:     0x123456,
		psn:     0xabcdef,
		init:    16,
		dest:    128,
		nonce:   0x1122334455667788,
		gid:     GID{10: 0xff, 11: 0xff, 12: 10, 13: 9, 14: 0, 15: 1},
	}
}

func testAnswer() answer {
	a := answer{
		endpoint:   testEndpoint(),
		echo:       0x0102030405060708,
		generation: 3,
		base:       0x7f0000001000,
		length:     64 << 20,
		rkey:       0xdeadbeef,
		pathMTU:    1024,
		reads:      8,
	}
	return a
}

// unhex drops the notes and spaces of an annotated dump.
func unhex(t *testing.T, dump string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(dump) {
		code, _, _ := strings.Cut(line, "#")
		raw, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, raw...)
	}
	return b
}

const goldenEndpoint = `
	02                        # Ethernet
	03                        # RoCE v2
	00
	00 10                     # active MTU 4096
	56 34 12 00               # QP
	ef cd ab 00               # PSN
	00 00                     # no LID
	10 80                     # 16 READs as requester, 128 as responder
	88 77 66 55 44 33 22 11   # nonce
	00 00 00 00 00 00 00 00   # GID ::ffff:10.9.0.1
	00 00 ff ff 0a 09 00 01
`

func TestHandshakeGolden(t *testing.T) {
	offer := unhex(t, `52 4d 51 50 01 00 01 # "RMQP", version 1, offer`+goldenEndpoint)
	if got := appendEndpoint(nil, kindOffer, testEndpoint()); !bytes.Equal(got, offer) {
		t.Errorf("offer\n%x, want\n%x", got, offer)
	}
	if e, err := parseOffer(offer); err != nil || e != testEndpoint() {
		t.Errorf("%+v %v", e, err)
	}
	reply := unhex(t, `52 4d 51 50 01 00 02 # answer`+goldenEndpoint+`
	08 07 06 05 04 03 02 01   # echo
	03 00 00 00 00 00 00 00   # generation
	00 10 00 00 00 7f 00 00   # base
	00 00 00 04 00 00 00 00   # 64 MiB
	ef be ad de               # rkey
	00 04                     # path MTU 1024
	08                        # READs in flight
	00 00 00 00 00 00 00 00 00
	`)
	if got := appendAnswer(nil, testAnswer()); !bytes.Equal(got, reply) {
		t.Errorf("answer\n%x, want\n%x", got, reply)
	}
	if a, err := parseAnswer(reply); err != nil || a != testAnswer() {
		t.Errorf("%+v %v", a, err)
	}
	if len(offer) != offerSize || len(reply) != answerSize {
		t.Errorf("%d and %d bytes", len(offer), len(reply))
	}
}

// TestHandshakeRefuses: each field out of range is refused, whatever it is that
// the peer sent.
func TestHandshakeRefuses(t *testing.T) {
	ib := testEndpoint()
	ib.link, ib.gidType, ib.lid = LinkLayerInfiniBand, TypeIB, 7
	if _, err := parseOffer(appendEndpoint(nil, kindOffer, ib)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*endpoint){
		"empty GID":         func(e *endpoint) { e.gid = GID{} },
		"link":              func(e *endpoint) { e.link = 0 },
		"unknown link":      func(e *endpoint) { e.link = 9 },
		"GID type":          func(e *endpoint) { e.gidType = 0 },
		"unknown GID type":  func(e *endpoint) { e.gidType = 4 },
		"IB GID on RoCE":    func(e *endpoint) { e.gidType = TypeIB },
		"IB without LID":    func(e *endpoint) { *e = ib; e.lid = 0 },
		"MTU":               func(e *endpoint) { e.mtu = 1500 },
		"no QP":             func(e *endpoint) { e.qpn = 0 },
		"QP over 24 bits":   func(e *endpoint) { e.qpn = 1 << 24 },
		"PSN over 24 bits":  func(e *endpoint) { e.psn = 1 << 24 },
		"no nonce":          func(e *endpoint) { e.nonce = 0 },
		"RoCE GID on an IB": func(e *endpoint) { *e = ib; e.gidType = TypeRoCEv2 },
	} {
		e := testEndpoint()
		change(&e)
		if _, err := parseOffer(appendEndpoint(nil, kindOffer, e)); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: %v", name, err)
		}
		a := testAnswer()
		a.endpoint = e
		if _, err := parseAnswer(appendAnswer(nil, a)); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s in an answer: %v", name, err)
		}
	}
	for name, change := range map[string]func(*answer){
		"no generation": func(a *answer) { a.generation = 0 },
		"no memory":     func(a *answer) { a.length = 0 },
		"wraps":         func(a *answer) { a.base = ^uint64(0) - 10 },
		"path MTU":      func(a *answer) { a.pathMTU = 0 },
		"no READs":      func(a *answer) { a.reads = 0 },
	} {
		a := testAnswer()
		change(&a)
		if _, err := parseAnswer(appendAnswer(nil, a)); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: %v", name, err)
		}
	}
	offer, reply := appendEndpoint(nil, kindOffer, testEndpoint()), appendAnswer(nil, testAnswer())
	for n := range answerSize + 2 {
		b := append(bytes.Clone(reply), 0, 0)[:n]
		if _, err := parseAnswer(b); n != answerSize && !errors.Is(err, ErrHandshake) {
			t.Errorf("answer of %d bytes: %v", n, err)
		}
		if _, err := parseOffer(b); !errors.Is(err, ErrHandshake) {
			t.Errorf("answer of %d bytes for an offer: %v", n, err)
		}
	}
	if _, err := parseAnswer(offer); !errors.Is(err, ErrHandshake) {
		t.Errorf("offer for an answer: %v", err)
	}
	offer[4] = 2
	if _, err := parseOffer(append(offer, "more, as version 2 may have"...)); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "2") {
		t.Errorf("another version: %v", err)
	}
	reply[90] = 1
	if _, err := parseAnswer(reply); !errors.Is(err, ErrHandshake) {
		t.Errorf("reserved byte: %v", err)
	}
}

func TestNegotiate(t *testing.T) {
	own, peer := testEndpoint(), testEndpoint()
	for _, c := range []struct {
		ownMTU, peerMTU    ibverbs.MTU
		dest, init         int
		wantMTU            ibverbs.MTU
		wantReads, readers int
	}{
		{4096, 4096, 128, 16, 4096, 16, 16},
		{4096, 1024, 16, 128, 1024, 16, 16}, // the responder serves less than is wanted
		{1024, 4096, 16, 4, 1024, 4, 4},
		{2048, 2048, 1, 255, 2048, 1, 1},
	} {
		own.mtu, own.dest, peer.mtu, peer.init = c.ownMTU, c.dest, c.peerMTU, c.init
		got, err := negotiate(own, peer)
		if err != nil || got.pathMTU != c.wantMTU || got.reads != c.wantReads {
			t.Errorf("%+v: %+v %v", c, got, err)
			continue
		}
		// The other end comes to the same.
		a := answer{endpoint: own, echo: peer.nonce, pathMTU: got.pathMTU, reads: got.reads}
		if t2, err := agree(peer, a); err != nil || t2 != got {
			t.Errorf("%+v: answering end %+v, asking end %+v %v", c, got, t2, err)
		}
	}
	own, peer = testEndpoint(), testEndpoint()
	peer.init = 0
	if _, err := negotiate(own, peer); !errors.Is(err, ErrIncompatible) {
		t.Errorf("no READs in flight: %v", err)
	}
	for name, change := range map[string]func(*endpoint){
		"GID type": func(e *endpoint) { e.gidType = TypeRoCEv1 },
		"family":   func(e *endpoint) { e.gid = GID{0: 0xfd, 15: 1} },
		"link":     func(e *endpoint) { e.link, e.gidType, e.lid = LinkLayerInfiniBand, TypeIB, 1 },
	} {
		peer = testEndpoint()
		change(&peer)
		if _, err := negotiate(own, peer); !errors.Is(err, ErrIncompatible) {
			t.Errorf("another %s: %v", name, err)
		}
		if _, err := agree(own, answer{endpoint: peer, echo: own.nonce}); !errors.Is(err, ErrIncompatible) {
			t.Errorf("another %s in the answer: %v", name, err)
		}
	}
	a := testAnswer()
	if _, err := agree(own, a); !errors.Is(err, ErrStaleAnswer) {
		t.Errorf("answer to another offer: %v", err)
	}
	a.echo, a.pathMTU = own.nonce, 4096
	own.mtu = 2048
	if _, err := agree(own, a); !errors.Is(err, ErrHandshake) {
		t.Errorf("path MTU above ours: %v", err)
	}
	own.mtu, own.init, a.reads = 4096, 2, 200
	if got, err := agree(own, a); err != nil || got.reads != 2 {
		t.Errorf("more READs than this end can have: %+v %v", got, err)
	}
}

// TestReadsInFlight: a device can have one number of READs under way as requester
// and serve another one as responder; neither is taken for the other.
func TestReadsInFlight(t *testing.T) {
	attr := ibverbs.DeviceAttr{MaxInitRdAtomic: 16, MaxRdAtomic: 64, MaxResRdAtomic: 1 << 20}
	for _, c := range []struct{ wanted, init, dest int }{{8, 8, 8}, {16, 16, 16}, {32, 16, 32}, {255, 16, 64}} {
		if init, dest := readsInFlight(c.wanted, attr); init != c.init || dest != c.dest {
			t.Errorf("%d wanted: %d as requester, %d as responder; want %d and %d", c.wanted, init, dest, c.init, c.dest)
		}
	}
	if init, dest := readsInFlight(1000, ibverbs.DeviceAttr{MaxInitRdAtomic: 1000, MaxRdAtomic: 1000}); init != 255 || dest != 255 {
		t.Errorf("%d and %d do not fit a byte", init, dest)
	}
}

func TestPathTo(t *testing.T) {
	own, peer := testEndpoint(), testEndpoint()
	peer.gid[15] = 2
	want := ibverbs.Path{Port: 2, GRH: &ibverbs.GlobalRoute{DGID: peer.gid, SGIDIndex: 5, HopLimit: hopLimit, TrafficClass: 104}}
	if got := pathTo(own, peer, 2, 5, 104); !reflect.DeepEqual(got, want) {
		t.Errorf("RoCE: %+v", got)
	}
	for _, e := range []*endpoint{&own, &peer} {
		e.link, e.gidType = LinkLayerInfiniBand, TypeIB
		e.gid = GID{0: 0xfe, 1: 0x80, 15: e.gid[15]}
	}
	peer.lid = 300
	if got := pathTo(own, peer, 1, 0, 0); got.DLID != 300 || got.GRH != nil {
		t.Errorf("InfiniBand, one subnet: %+v", got)
	}
	peer.gid[7] = 1
	if got := pathTo(own, peer, 1, 3, 0); got.DLID != 300 || got.GRH == nil || got.GRH.DGID != peer.gid || got.GRH.SGIDIndex != 3 {
		t.Errorf("InfiniBand, another subnet: %+v", got)
	}
}

// FuzzOffer: no bytes make the parsers panic, and what they take they write the
// same way.
func FuzzOffer(f *testing.F) {
	f.Add(appendEndpoint(nil, kindOffer, testEndpoint()))
	f.Add(appendAnswer(nil, testAnswer()))
	f.Add([]byte{})
	f.Add([]byte("RMQP\x02\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := parseOffer(b); err == nil {
			if again := appendEndpoint(nil, kindOffer, e); !bytes.Equal(again, b) {
				t.Errorf("offer %x is written as %x", b, again)
			}
			if _, err := negotiate(testEndpoint(), e); err == nil {
				pathTo(testEndpoint(), e, 1, 0, 0)
			}
		} else if !errors.Is(err, ErrHandshake) {
			t.Errorf("%v", err)
		}
		if a, err := parseAnswer(b); err == nil {
			if again := appendAnswer(nil, a); !bytes.Equal(again, b) {
				t.Errorf("answer %x is written as %x", b, again)
			}
		} else if !errors.Is(err, ErrHandshake) {
			t.Errorf("%v", err)
		}
	})
}
