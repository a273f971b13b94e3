package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Port is the UDP destination port of RoCE v2.
const Port = 4791

const (
	bthSize  = 12
	icrcSize = 4
	// PSNMask bounds packet sequence numbers, which are 24 bits wide.
	PSNMask = 1<<24 - 1
)

// BTH is the base transport header, together with the pad and the ICRC at the
// packet's end. The payload of the layer is the extension headers and the data,
// without pad and ICRC.
type BTH struct {
	layers.BaseLayer
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	PadCount  uint8 // 0 to 3 bytes after the payload
	PKey      uint16
	FECN      bool
	BECN      bool
	DestQP    uint32 // 24 bits
	AckReq    bool
	PSN       uint32 // 24 bits
	ICRC      uint32 // as transmitted; checked by CheckICRC only
}

// LayerType returns LayerTypeBTH.
func (*BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH.
func (*BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType is the first extension header's, or the payload's.
func (b *BTH) NextLayerType() gopacket.LayerType {
	h := b.Opcode.headers()
	switch {
	case h.deth:
		return LayerTypeDETH
	case h.reth:
		return LayerTypeRETH
	case h.aeth:
		return LayerTypeAETH
	case h.other > 0:
		return LayerTypeOther
	}
	return gopacket.LayerTypePayload
}

// DecodeFromBytes reads a UDP payload. The layer keeps sub-slices of data.
func (b *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < bthSize+icrcSize {
		df.SetTruncated()
		return fmt.Errorf("%w: %d bytes, BTH and ICRC take %d", ErrTruncated, len(data), bthSize+icrcSize)
	}
	if err := b.decodeHeader(data); err != nil {
		return err
	}
	b.Contents = data[:bthSize]
	b.ICRC = binary.LittleEndian.Uint32(data[len(data)-icrcSize:])
	need := b.Opcode.headers().size() + int(b.PadCount)
	rest := data[bthSize : len(data)-icrcSize]
	if len(rest) < need {
		df.SetTruncated()
		return fmt.Errorf("%w: %d bytes after the BTH, headers and pad of %v take %d", ErrTruncated, len(rest), b.Opcode, need)
	}
	b.Payload = rest[:len(rest)-int(b.PadCount)]
	return nil
}

// decodeHeader reads the bthSize bytes that data begins with.
func (b *BTH) decodeHeader(data []byte) error {
	if version := data[1] & 0x0f; version != 0 {
		return fmt.Errorf("%w: %d", ErrVersion, version)
	}
	*b = BTH{
		Opcode:    Opcode(data[0]),
		Solicited: data[1]&0x80 != 0,
		MigReq:    data[1]&0x40 != 0,
		PadCount:  data[1] >> 4 & 3,
		PKey:      binary.BigEndian.Uint16(data[2:]),
		FECN:      data[4]&0x80 != 0,
		BECN:      data[4]&0x40 != 0,
		DestQP:    uint24(data[5:]),
		AckReq:    data[8]&0x80 != 0,
		PSN:       uint24(data[9:]),
	}
	return nil
}

// SerializeTo puts the header before, and pad and ICRC after what is in the
// buffer. FixLengths sets PadCount. The ICRC is the field's value: it covers
// headers that are not there yet, and is set by SetICRC when they are.
func (b *BTH) SerializeTo(buf gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if b.DestQP > PSNMask || b.PSN > PSNMask || b.PadCount > 3 {
		return fmt.Errorf("BTH field too wide: QP %d, PSN %d, pad %d", b.DestQP, b.PSN, b.PadCount)
	}
	if opts.FixLengths {
		b.PadCount = uint8(-len(buf.Bytes()) & 3)
	}
	end, err := buf.AppendBytes(int(b.PadCount) + icrcSize)
	if err != nil {
		return err
	}
	clear(end)
	binary.LittleEndian.PutUint32(end[b.PadCount:], b.ICRC)
	h, err := buf.PrependBytes(bthSize)
	if err != nil {
		return err
	}
	clear(h)
	putUint24(h[9:], b.PSN)
	putUint24(h[5:], b.DestQP)
	h[0] = uint8(b.Opcode)
	h[1] = b.PadCount<<4 | bit(b.Solicited, 7) | bit(b.MigReq, 6)
	binary.BigEndian.PutUint16(h[2:], b.PKey)
	h[4] = bit(b.FECN, 7) | bit(b.BECN, 6)
	h[8] = bit(b.AckReq, 7)
	return nil
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}
