package roce

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Layer types.
const (
	LayerTypeBTH   gopacket.LayerType = 1700
	LayerTypeRETH  gopacket.LayerType = 1701
	LayerTypeAETH  gopacket.LayerType = 1702
	LayerTypeDETH  gopacket.LayerType = 1703
	LayerTypeOther gopacket.LayerType = 1704
)

// gopacket's registry is the only way to tell its UDP layer what follows. It is
// written here and never again.
func init() {
	register := func(t gopacket.LayerType, name string, decode gopacket.DecodeFunc) {
		gopacket.RegisterLayerType(int(t), gopacket.LayerTypeMetadata{Name: name, Decoder: decode})
	}
	register(LayerTypeBTH, "BTH", decode)
	for t, name := range map[gopacket.LayerType]string{
		LayerTypeRETH: "RETH", LayerTypeAETH: "AETH", LayerTypeDETH: "DETH", LayerTypeOther: "RoCE extension header",
	} {
		register(t, name, decodeAlone)
	}
	layers.RegisterUDPPortLayerType(Port, LayerTypeBTH)
}

// decode adds all RoCE layers at once: what follows an extension header depends
// on the opcode in the BTH, which its own decoder would not see.
func decode(data []byte, p gopacket.PacketBuilder) error {
	bth := &BTH{}
	if err := bth.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(bth)
	h, rest := bth.Opcode.headers(), bth.Payload
	if h.deth {
		l := &DETH{}
		if err := l.DecodeFromBytes(rest, p); err != nil {
			return err
		}
		p.AddLayer(l)
		rest = l.Payload
	}
	if h.reth {
		l := &RETH{}
		if err := l.DecodeFromBytes(rest, p); err != nil {
			return err
		}
		p.AddLayer(l)
		rest = l.Payload
	}
	if h.aeth {
		l := &AETH{}
		if err := l.DecodeFromBytes(rest, p); err != nil {
			return err
		}
		p.AddLayer(l)
		rest = l.Payload
	}
	if h.other > 0 {
		if err := need("extension header", rest, h.other, p); err != nil {
			return err
		}
		p.AddLayer(&Other{layers.BaseLayer{Contents: rest[:h.other], Payload: rest[h.other:]}})
		rest = rest[h.other:]
	}
	if len(rest) == 0 {
		return nil
	}
	l := gopacket.Payload(rest)
	p.AddLayer(&l)
	p.SetApplicationLayer(&l)
	return nil
}

// decodeAlone is for a caller who starts at an extension header: without the BTH
// what follows it is bytes.
func decodeAlone(data []byte, p gopacket.PacketBuilder) error {
	return gopacket.LayerTypePayload.Decode(data, p)
}
