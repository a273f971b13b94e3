package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// The handshake is one message each way, carried by the caller over a channel
// that authenticates the peer. All numbers are little-endian.
//
//	offer: the side that will READ            48 bytes
//	 0  magic     4  "RMQP"
//	 4  version   2  1
//	 6  kind      1  1 offer, 2 answer
//	 7  link      1  1 InfiniBand, 2 Ethernet
//	 8  gid type  1  1 IB, 2 RoCE v1, 3 RoCE v2
//	 9  zero      1
//	10  MTU       2  active MTU of the sender's port, bytes
//	12  QP        4  24 bits
//	16  PSN       4  24 bits, first of the sender's requests, random
//	20  LID       2  0 on Ethernet
//	22  init      1  READs in flight the sender can have as requester
//	23  dest      1  READs in flight it can serve as responder
//	24  nonce     8  random, not 0: names this attempt
//	32  GID      16  of the sender
//	answer: the side that exports memory      96 bytes, begins as an offer does
//	48  echo      8  nonce of the offer that it answers
//	56  generation 8 registration that the handle below belongs to
//	64  base      8  address of the memory's first byte
//	72  length    8  bytes of the memory, not 0
//	80  rkey      4  the right to read it
//	84  path MTU  2  what the answering queue pair uses
//	86  reads     1  READs in flight it serves, not 0
//	87  zero      9
//
// The echo is the fence against late answers: a queue pair that was made anew
// has another nonce, so that an answer to the one before it is refused. The
// answer holds a capability (the rkey); an offer holds none.
const (
	handshakeVersion = 1
	offerSize        = 48
	answerSize       = 96

	kindOffer  = 1
	kindAnswer = 2
)

var handshakeMagic = [4]byte{'R', 'M', 'Q', 'P'}

// endpoint is one end of a connection, as an offer tells it.
type endpoint struct {
	link    LinkLayer
	gidType GIDType
	mtu     ibverbs.MTU
	qpn     uint32
	psn     uint32
	lid     uint16
	init    int
	dest    int
	nonce   uint64
	gid     GID
}

// answer is the exporting end, with the handle of its memory.
type answer struct {
	endpoint
	echo       uint64
	generation uint64
	base       uint64
	length     uint64
	rkey       uint32
	pathMTU    ibverbs.MTU
	reads      int
}

func appendEndpoint(b []byte, kind byte, e endpoint) []byte {
	b = append(b, handshakeMagic[:]...)
	b = binary.LittleEndian.AppendUint16(b, handshakeVersion)
	b = append(b, kind, byte(e.link), byte(e.gidType), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(e.mtu))
	b = binary.LittleEndian.AppendUint32(b, e.qpn)
	b = binary.LittleEndian.AppendUint32(b, e.psn)
	b = binary.LittleEndian.AppendUint16(b, e.lid)
	b = append(b, byte(e.init), byte(e.dest))
	b = binary.LittleEndian.AppendUint64(b, e.nonce)
	return append(b, e.gid[:]...)
}

func appendAnswer(b []byte, a answer) []byte {
	b = appendEndpoint(b, kindAnswer, a.endpoint)
	b = binary.LittleEndian.AppendUint64(b, a.echo)
	b = binary.LittleEndian.AppendUint64(b, a.generation)
	b = binary.LittleEndian.AppendUint64(b, a.base)
	b = binary.LittleEndian.AppendUint64(b, a.length)
	b = binary.LittleEndian.AppendUint32(b, a.rkey)
	b = binary.LittleEndian.AppendUint16(b, uint16(a.pathMTU))
	b = append(b, byte(a.reads))
	return append(b, make([]byte, answerSize-87)...)
}

func parseOffer(b []byte) (endpoint, error) { return parseEndpoint(b, kindOffer, offerSize) }

func parseEndpoint(b []byte, kind byte, size int) (endpoint, error) {
	switch {
	case len(b) < 7:
		return endpoint{}, fmt.Errorf("%w: %d bytes", ErrHandshake, len(b))
	case [4]byte(b) != handshakeMagic:
		return endpoint{}, fmt.Errorf("%w: does not begin with %q", ErrHandshake, handshakeMagic)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != handshakeVersion {
		return endpoint{}, fmt.Errorf("%w %d, this end speaks %d: upgrade the older end", ErrVersion, v, handshakeVersion)
	}
	switch {
	case b[6] != kind:
		return endpoint{}, fmt.Errorf("%w: message of kind %d instead of %d", ErrHandshake, b[6], kind)
	case len(b) != size:
		return endpoint{}, fmt.Errorf("%w: %d bytes instead of %d", ErrHandshake, len(b), size)
	case b[9] != 0:
		return endpoint{}, fmt.Errorf("%w: reserved byte 9 is %d", ErrHandshake, b[9])
	}
	e := endpoint{
		link:    LinkLayer(b[7]),
		gidType: GIDType(b[8]),
		mtu:     ibverbs.MTU(binary.LittleEndian.Uint16(b[10:])),
		qpn:     binary.LittleEndian.Uint32(b[12:]),
		psn:     binary.LittleEndian.Uint32(b[16:]),
		lid:     binary.LittleEndian.Uint16(b[20:]),
		init:    int(b[22]),
		dest:    int(b[23]),
		nonce:   binary.LittleEndian.Uint64(b[24:]),
		gid:     GID(b[32:48]),
	}
	switch {
	case e.link != LinkLayerInfiniBand && e.link != LinkLayerEthernet:
		return endpoint{}, fmt.Errorf("%w: %v", ErrHandshake, e.link)
	case e.gidType < TypeIB || e.gidType > TypeRoCEv2:
		return endpoint{}, fmt.Errorf("%w: %v", ErrHandshake, e.gidType)
	case (e.link == LinkLayerInfiniBand) != (e.gidType == TypeIB):
		return endpoint{}, fmt.Errorf("%w: %v GID on %v", ErrHandshake, e.gidType, e.link)
	case e.gid.IsZero():
		return endpoint{}, fmt.Errorf("%w: the peer's GID is empty: its device has none that can be used", ErrHandshake)
	case e.link == LinkLayerInfiniBand && e.lid == 0:
		return endpoint{}, fmt.Errorf("%w: the peer has no LID: its subnet manager has not configured it", ErrHandshake)
	case !e.mtu.Valid():
		return endpoint{}, fmt.Errorf("%w: MTU %d", ErrHandshake, e.mtu)
	case e.qpn == 0 || e.qpn>>24 != 0:
		return endpoint{}, fmt.Errorf("%w: QP number %d", ErrHandshake, e.qpn)
	case e.psn>>24 != 0:
		return endpoint{}, fmt.Errorf("%w: PSN %d", ErrHandshake, e.psn)
	case e.nonce == 0:
		return endpoint{}, fmt.Errorf("%w: no nonce", ErrHandshake)
	}
	return e, nil
}

func parseAnswer(b []byte) (answer, error) {
	e, err := parseEndpoint(b, kindAnswer, answerSize)
	if err != nil {
		return answer{}, err
	}
	a := answer{
		endpoint:   e,
		echo:       binary.LittleEndian.Uint64(b[48:]),
		generation: binary.LittleEndian.Uint64(b[56:]),
		base:       binary.LittleEndian.Uint64(b[64:]),
		length:     binary.LittleEndian.Uint64(b[72:]),
		rkey:       binary.LittleEndian.Uint32(b[80:]),
		pathMTU:    ibverbs.MTU(binary.LittleEndian.Uint16(b[84:])),
		reads:      int(b[86]),
	}
	for i, z := range b[87:] {
		if z != 0 {
			return answer{}, fmt.Errorf("%w: reserved byte %d is %d", ErrHandshake, 87+i, z)
		}
	}
	switch {
	case a.generation == 0:
		return answer{}, fmt.Errorf("%w: no generation", ErrHandshake)
	case a.length == 0 || a.base+a.length < a.base:
		return answer{}, fmt.Errorf("%w: memory of %d bytes", ErrHandshake, a.length)
	case !a.pathMTU.Valid():
		return answer{}, fmt.Errorf("%w: path MTU %d", ErrHandshake, a.pathMTU)
	case a.reads == 0:
		return answer{}, fmt.Errorf("%w: the peer serves no READs", ErrHandshake)
	}
	return a, nil
}
