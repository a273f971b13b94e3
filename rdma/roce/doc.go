// Package roce decodes RoCE v2 packets, as layers for github.com/google/gopacket,
// and counts them: the proof that a transfer was one-sided is in what crosses
// the wire. Importing the package makes gopacket decode UDP port 4791.
//
// A packet (InfiniBand Architecture Specification 1.4, volume 1, chapter 9, and
// annexes A16 and A17); multi-byte fields are big-endian, but for the ICRC:
//
//	| Ethernet | IPv4 or IPv6 | UDP, destination 4791 | BTH 12 |
//	| extension headers, by opcode | payload | pad 0..3 | ICRC 4 |
//
//	BTH   0     1                          2..3   4                     5..7     8              9..11
//	      opcode SE|MigReq|pad(2)|TVer(4)  P_Key  FECN|BECN|reserved(6) dest QP  AckReq|reserved PSN
//	RETH  0..7 virtual address  8..11 R_Key  12..15 DMA length
//	AETH  0 syndrome  1..3 MSN
//	DETH  0..3 Q_Key  4 reserved  5..7 source QP
//
// The ICRC is the Ethernet CRC-32, least significant byte first, over eight
// bytes of ones, the IP header, the UDP header, and all from the BTH to the pad,
// with the fields that routers may change taken as ones: IPv4 TOS, TTL and
// header checksum; IPv6 traffic class, flow label and hop limit; the UDP
// checksum; byte 4 of the BTH. Ethernet header and VLAN tags are not covered.
//
// Layer type numbers are 1700 to 1704, in the range that gopacket leaves to
// applications (1000 to 1999).
package roce
