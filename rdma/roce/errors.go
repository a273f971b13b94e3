package roce

import "errors"

var (
	// ErrTruncated is returned when a packet ends before its headers, pad and
	// ICRC do: a capture length that is too small, or not RoCE at all.
	ErrTruncated = errors.New("RoCE packet is truncated")
	// ErrVersion is returned when the BTH has another transport version than 0.
	ErrVersion = errors.New("unknown RoCE transport version")
	// ErrNotRoCE is returned when a packet has no BTH over UDP over IP.
	ErrNotRoCE = errors.New("not a RoCE v2 packet")
	// ErrICRC is returned when the ICRC does not fit the packet.
	ErrICRC = errors.New("ICRC mismatch")
	// ErrHeaders is returned when the ICRC of a packet is not defined: IP
	// fragments, IPv4 options, IPv6 extension headers.
	ErrHeaders = errors.New("IP headers that RoCE v2 does not allow")
	// ErrNotOneSided is returned when a capture has more than READs and their
	// responses.
	ErrNotOneSided = errors.New("not one-sided")
)
