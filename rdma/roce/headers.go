package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

const (
	rethSize = 16
	aethSize = 4
	dethSize = 8
)

// RKey is a remote key. It is a capability: its text form does not show it, and
// so gopacket's text of a packet does not.
type RKey uint32

// String hides the key.
func (RKey) String() string { return "hidden" }

// GoString hides the key.
func (RKey) GoString() string { return "hidden" }

// RETH is the RDMA extended transport header: which memory a READ or WRITE is
// about.
type RETH struct {
	layers.BaseLayer
	Address   uint64
	Key       RKey
	DMALength uint32 // bytes of the whole operation
}

// LayerType returns LayerTypeRETH.
func (*RETH) LayerType() gopacket.LayerType { return LayerTypeRETH }

// DecodeFromBytes reads what follows a BTH.
func (r *RETH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := need("RETH", data, rethSize, df); err != nil {
		return err
	}
	r.BaseLayer = layers.BaseLayer{Contents: data[:rethSize], Payload: data[rethSize:]}
	r.Address = binary.BigEndian.Uint64(data)
	r.Key = RKey(binary.BigEndian.Uint32(data[8:]))
	r.DMALength = binary.BigEndian.Uint32(data[12:])
	return nil
}

// SerializeTo puts the header before what is in the buffer.
func (r *RETH) SerializeTo(buf gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := buf.PrependBytes(rethSize)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint64(h, r.Address)
	binary.BigEndian.PutUint32(h[8:], uint32(r.Key))
	binary.BigEndian.PutUint32(h[12:], r.DMALength)
	return nil
}

// AETH is the acknowledge extended transport header.
type AETH struct {
	layers.BaseLayer
	Syndrome Syndrome
	MSN      uint32 // 24 bits: messages that the responder has completed
}

// LayerType returns LayerTypeAETH.
func (*AETH) LayerType() gopacket.LayerType { return LayerTypeAETH }

// DecodeFromBytes reads what follows a BTH.
func (a *AETH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := need("AETH", data, aethSize, df); err != nil {
		return err
	}
	a.BaseLayer = layers.BaseLayer{Contents: data[:aethSize], Payload: data[aethSize:]}
	a.Syndrome, a.MSN = Syndrome(data[0]), uint24(data[1:])
	return nil
}

// SerializeTo puts the header before what is in the buffer.
func (a *AETH) SerializeTo(buf gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	if a.MSN > PSNMask {
		return fmt.Errorf("MSN %d is wider than 24 bits", a.MSN)
	}
	h, err := buf.PrependBytes(aethSize)
	if err != nil {
		return err
	}
	putUint24(h[1:], a.MSN)
	h[0] = uint8(a.Syndrome)
	return nil
}

// Syndrome is ACK, RNR NAK or NAK with a code (IBA specification, tables 45 to
// 47).
type Syndrome uint8

// IsACK reports whether the packet acknowledges.
func (s Syndrome) IsACK() bool { return s>>5&3 == 0 }

// IsNAK reports whether the responder refused the request, other than by asking
// for some patience (RNR).
func (s Syndrome) IsNAK() bool { return s>>5&3 == 3 }

// String says what the syndrome means.
func (s Syndrome) String() string {
	low := uint8(s & 0x1f)
	switch s >> 5 & 3 {
	case 0:
		return "ACK"
	case 1:
		return fmt.Sprintf("RNR NAK, timer %d", low)
	case 3:
		codes := [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}
		if int(low) < len(codes) {
			return "NAK: " + codes[low]
		}
		return fmt.Sprintf("NAK, code %d", low)
	}
	return fmt.Sprintf("syndrome 0x%02x", uint8(s))
}

// DETH is the datagram extended transport header of the UD service.
type DETH struct {
	layers.BaseLayer
	QKey     RKey
	SourceQP uint32 // 24 bits
}

// LayerType returns LayerTypeDETH.
func (*DETH) LayerType() gopacket.LayerType { return LayerTypeDETH }

// DecodeFromBytes reads what follows a BTH.
func (d *DETH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := need("DETH", data, dethSize, df); err != nil {
		return err
	}
	d.BaseLayer = layers.BaseLayer{Contents: data[:dethSize], Payload: data[dethSize:]}
	d.QKey, d.SourceQP = RKey(binary.BigEndian.Uint32(data)), uint24(data[5:])
	return nil
}

// SerializeTo puts the header before what is in the buffer.
func (d *DETH) SerializeTo(buf gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	if d.SourceQP > PSNMask {
		return fmt.Errorf("QP %d is wider than 24 bits", d.SourceQP)
	}
	h, err := buf.PrependBytes(dethSize)
	if err != nil {
		return err
	}
	putUint24(h[5:], d.SourceQP)
	binary.BigEndian.PutUint32(h, uint32(d.QKey))
	h[4] = 0
	return nil
}

// Other is extension headers that rmatail has no use for, as bytes: immediate
// data, an invalidated key, atomic operations.
type Other struct {
	layers.BaseLayer
}

// LayerType returns LayerTypeOther.
func (*Other) LayerType() gopacket.LayerType { return LayerTypeOther }

func need(name string, data []byte, size int, df gopacket.DecodeFeedback) error {
	if len(data) < size {
		df.SetTruncated()
		return fmt.Errorf("%w: %d bytes, the %s takes %d", ErrTruncated, len(data), name, size)
	}
	return nil
}
