package roce

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

const (
	ipv4Size = 20
	ipv6Size = 40
	udpSize  = 8
)

// ICRC computes the invariant CRC of an IP packet that is UDP and RoCE v2 from
// its IP header on: packet ends with the ICRC's place, which is not read.
// ErrHeaders, ErrTruncated or ErrNotRoCE tell a packet that has none.
func ICRC(packet []byte) (uint32, error) { return icrc(packet, new(maskedHeaders)) }

// maskedHeaders has room for what an ICRC covers of the headers: a dummy LRH, IP,
// UDP and BTH. It would not stay on the stack, as crc32 calls by reference.
type maskedHeaders [8 + ipv6Size + udpSize + bthSize]byte

func icrc(packet []byte, masked *maskedHeaders) (uint32, error) {
	size, err := ipHeader(packet)
	if err != nil {
		return 0, err
	}
	body := packet[size+udpSize : len(packet)-icrcSize]

	// A dummy LRH of ones, then the headers with their variant fields as ones.
	for i := range 8 {
		masked[i] = 0xff
	}
	n := 8 + copy(masked[8:], packet[:size+udpSize+bthSize])
	ip := masked[8:]
	udp, bth := ip[size:], ip[size+udpSize:]
	if size == ipv4Size {
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff // TOS, TTL, checksum
	} else {
		ip[0] |= 0x0f // traffic class and flow label
		ip[1], ip[2], ip[3], ip[7] = 0xff, 0xff, 0xff, 0xff
	}
	udp[6], udp[7] = 0xff, 0xff // checksum
	bth[4] = 0xff               // FECN, BECN, reserved
	return crc32.Update(crc32.ChecksumIEEE(masked[:n]), crc32.IEEETable, body[bthSize:]), nil
}

// ipHeader returns the size of the IP header in front of UDP and RoCE, after
// having checked that all of it is there.
func ipHeader(packet []byte) (int, error) {
	const rest = udpSize + bthSize + icrcSize
	if len(packet) < ipv4Size+rest {
		return 0, fmt.Errorf("%w: %d bytes", ErrTruncated, len(packet))
	}
	var size, total int
	var next byte
	switch packet[0] >> 4 {
	case 4:
		size, total, next = ipv4Size, int(binary.BigEndian.Uint16(packet[2:])), packet[9]
		if packet[0]&0xf != 5 {
			return 0, fmt.Errorf("%w: IPv4 options", ErrHeaders)
		}
		if binary.BigEndian.Uint16(packet[6:])&0x3fff != 0 { // more fragments, offset
			return 0, fmt.Errorf("%w: fragment", ErrHeaders)
		}
	case 6:
		size, total, next = ipv6Size, ipv6Size+int(binary.BigEndian.Uint16(packet[4:])), packet[6]
	default:
		return 0, fmt.Errorf("%w: IP version %d", ErrNotRoCE, packet[0]>>4)
	}
	if next != byte(layers.IPProtocolUDP) {
		return 0, fmt.Errorf("%w: IP protocol %d", ErrHeaders, next)
	}
	if total != len(packet) || total < size+rest {
		return 0, fmt.Errorf("%w: %d bytes, the IP header says %d", ErrTruncated, len(packet), total)
	}
	return size, nil
}

// SetICRC writes the ICRC into the last four bytes of an IP packet: the bytes
// from the IP header to the end that the header states. A UDP checksum has to be
// computed after that; RoCE senders leave it 0.
func SetICRC(packet []byte) error {
	crc, err := ICRC(packet)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(packet[len(packet)-icrcSize:], crc)
	return nil
}

// CheckICRC recomputes the ICRC of a decoded packet. It returns ErrICRC, or why
// there is none to check. In a tunnel the innermost IP header counts.
func CheckICRC(p gopacket.Packet) error {
	ip, bth := find(p)
	if bth == nil {
		return ErrNotRoCE
	}
	packet := make([]byte, 0, len(ip.LayerContents())+len(ip.LayerPayload()))
	packet = append(packet, ip.LayerContents()...)
	packet = append(packet, ip.LayerPayload()...)
	crc, err := ICRC(packet)
	if err != nil {
		return err
	}
	if crc != bth.ICRC {
		return fmt.Errorf("%w: %08x, computed %08x", ErrICRC, bth.ICRC, crc)
	}
	return nil
}

// find returns the BTH of a packet and the IP layer that it is in.
func find(p gopacket.Packet) (gopacket.Layer, *BTH) {
	var ip gopacket.Layer
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.IPv4, *layers.IPv6:
			ip = l
		case *BTH:
			if ip == nil {
				return nil, nil
			}
			return ip, l
		}
	}
	return nil, nil
}
