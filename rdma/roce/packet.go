package roce

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Packet is a decoded RoCE v2 packet without its bytes: what a trace of many
// packets keeps of each.
type Packet struct {
	Flow Flow
	VLAN uint16 // ID of the innermost tag, 0 none
	CE   bool   // a switch has marked congestion (ECN, RFC 3168)
	BTH  BTH    // without contents and payload; ICRC is 0 when Cut
	RETH RETH   // of READ and WRITE requests, else zero
	AETH AETH   // of READ responses and acknowledges, else zero
	Data int    // bytes of data without pad, also those that the capture cut off
	Cut  bool   // the capture has not all of the packet: its ICRC cannot be checked

	masked maskedHeaders
}

// HasRETH reports whether the packet has a RETH.
func (p *Packet) HasRETH() bool { return p.BTH.Opcode.headers().reth }

// HasAETH reports whether the packet has an AETH.
func (p *Packet) HasAETH() bool { return p.BTH.Opcode.headers().aeth }

// Decode reads a captured frame of a link type into p, and checks the ICRC. It
// takes frames that a capture cut behind their headers, which [Summary] does
// not, allocates nothing unless it fails, and looks into no tunnels. p keeps
// nothing of frame.
//
// Errors: ErrNotRoCE for any other traffic; ErrTruncated when the headers are
// not all there, or the lengths contradict each other; ErrHeaders, ErrVersion;
// ErrICRC, and then p is filled but what it says may be wrong.
func (p *Packet) Decode(link layers.LinkType, frame []byte) error {
	p.reset()
	ip, err := p.network(link, frame)
	if err != nil {
		return err
	}
	size, total, err := ipLengths(ip)
	if err != nil {
		return err
	}
	if len(ip) >= total {
		ip = ip[:total] // short frames are padded
	} else {
		p.Cut = true
	}
	return p.transport(ip, size, total)
}

func (p *Packet) reset() {
	p.Flow, p.VLAN, p.CE, p.Data, p.Cut = Flow{}, 0, false, 0, false
	p.BTH, p.RETH, p.AETH = BTH{}, RETH{}, AETH{}
}

// network finds the IP header behind the link header and VLAN tags.
func (p *Packet) network(link layers.LinkType, frame []byte) ([]byte, error) {
	const tagSize, maxTags = 4, 4
	var at int // where the Ethertype is
	switch link {
	case layers.LinkTypeEthernet:
		at = 12
	case layers.LinkTypeLinuxSLL: // the header of captures on all netdevs
		at = 14
	case layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6:
		return frame, nil
	default:
		return nil, fmt.Errorf("%w: link type %v", ErrNotRoCE, link)
	}
	for range maxTags {
		if len(frame) < at+2 {
			break
		}
		switch layers.EthernetType(binary.BigEndian.Uint16(frame[at:])) {
		case layers.EthernetTypeIPv4, layers.EthernetTypeIPv6:
			return frame[at+2:], nil
		case layers.EthernetTypeDot1Q, layers.EthernetTypeQinQ:
			if len(frame) < at+tagSize {
				return nil, fmt.Errorf("%w: VLAN tag", ErrNotRoCE)
			}
			p.VLAN = binary.BigEndian.Uint16(frame[at+2:]) & 0xfff
			at += tagSize
			continue
		}
		break
	}
	return nil, fmt.Errorf("%w: no IP", ErrNotRoCE)
}

// ipLengths returns the size of the IP header in front of UDP to the RoCE port,
// and that of the whole packet as the header says it.
func ipLengths(ip []byte) (size, total int, err error) {
	if len(ip) == 0 {
		return 0, 0, fmt.Errorf("%w: no IP", ErrNotRoCE)
	}
	var next byte
	switch ip[0] >> 4 {
	case 4:
		if len(ip) < ipv4Size {
			return 0, 0, fmt.Errorf("%w: %d bytes of IPv4 header", ErrNotRoCE, len(ip))
		}
		size, total, next = int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:])), ip[9]
		if binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 {
			return 0, 0, fmt.Errorf("%w: later fragment", ErrNotRoCE)
		}
	case 6:
		if len(ip) < ipv6Size {
			return 0, 0, fmt.Errorf("%w: %d bytes of IPv6 header", ErrNotRoCE, len(ip))
		}
		size, total, next = ipv6Size, ipv6Size+int(binary.BigEndian.Uint16(ip[4:])), ip[6]
	default:
		return 0, 0, fmt.Errorf("%w: IP version %d", ErrNotRoCE, ip[0]>>4)
	}
	if next != byte(layers.IPProtocolUDP) || size < ipv4Size || len(ip) < size+udpSize || binary.BigEndian.Uint16(ip[size+2:]) != Port {
		return 0, 0, fmt.Errorf("%w: not UDP to port %d", ErrNotRoCE, Port)
	}
	if ip[0]>>4 == 4 && size != ipv4Size {
		return 0, 0, fmt.Errorf("%w: IPv4 options", ErrHeaders)
	}
	if ip[0]>>4 == 4 && binary.BigEndian.Uint16(ip[6:])&0x2000 != 0 {
		return 0, 0, fmt.Errorf("%w: fragment", ErrHeaders)
	}
	if udp := int(binary.BigEndian.Uint16(ip[size+4:])); udp != total-size || udp < udpSize {
		return 0, 0, fmt.Errorf("%w: UDP says %d bytes, IP %d", ErrTruncated, udp, total-size)
	}
	return size, total, nil
}

// transport decodes what follows UDP in an IP packet of total bytes, of which
// there may be fewer.
func (p *Packet) transport(ip []byte, size, total int) error {
	body := ip[size+udpSize:]
	if len(body) < bthSize {
		return fmt.Errorf("%w: %d bytes of the BTH", ErrTruncated, len(body))
	}
	if err := p.BTH.decodeHeader(body); err != nil {
		return err
	}
	h := p.BTH.Opcode.headers()
	if p.Data = total - size - udpSize - bthSize - h.size() - int(p.BTH.PadCount) - icrcSize; p.Data < 0 {
		return fmt.Errorf("%w: %d bytes, %d too few for %v", ErrTruncated, total, -p.Data, p.BTH.Opcode)
	}
	rest := body[bthSize:]
	if h.deth {
		rest = rest[min(dethSize, len(rest)):]
	}
	if h.reth {
		if err := p.RETH.DecodeFromBytes(rest, gopacket.NilDecodeFeedback); err != nil {
			return err
		}
		rest = p.RETH.Payload
		p.RETH.BaseLayer = layers.BaseLayer{}
	}
	if h.aeth {
		if err := p.AETH.DecodeFromBytes(rest, gopacket.NilDecodeFeedback); err != nil {
			return err
		}
		p.AETH.BaseLayer = layers.BaseLayer{}
	}
	p.Flow.DestQP = p.BTH.DestQP
	tos := ip[1]
	if size == ipv4Size {
		p.Flow.Src, p.Flow.Dst = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	} else {
		p.Flow.Src, p.Flow.Dst = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
		tos = ip[0]<<4 | ip[1]>>4
	}
	p.CE = tos&3 == 3
	if p.Cut {
		return nil
	}
	crc, err := icrc(ip, &p.masked)
	if err != nil {
		return err
	}
	p.BTH.ICRC = binary.LittleEndian.Uint32(ip[len(ip)-icrcSize:])
	if crc != p.BTH.ICRC {
		return fmt.Errorf("%w: %08x, computed %08x", ErrICRC, p.BTH.ICRC, crc)
	}
	return nil
}
