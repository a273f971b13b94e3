package ibverbs

import (
	"fmt"
	"time"
)

// MTU is a path MTU in bytes: 256, 512, 1024, 2048 or 4096. Zero is unknown.
type MTU int

// wire returns enum ibv_mtu, 0 for what is not one of the five.
func (m MTU) wire() uint32 {
	for code := uint32(1); code <= 5; code++ {
		if MTU(128<<code) == m {
			return code
		}
	}
	return 0
}

// Valid reports whether m is one of the five path MTUs.
func (m MTU) Valid() bool { return m.wire() != 0 }

func mtuOf(code uint32) MTU {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

// ackUnit is the unit of the local ACK timeout (IBA specification 1.4, section
// 9.7.6.1.3): the timer runs for 4.096 us x 2^n, n in 1..31; 0 is for ever.
const ackUnit = 4096 * time.Nanosecond

// MaxAckTimeout is the longest ACK timeout that can be encoded: n = 31, 2.4 h.
const MaxAckTimeout = ackUnit << 31

// AckExponent encodes an ACK timeout, rounded up to the next power. It never
// returns 0, which would mean to wait for ever; d above MaxAckTimeout gives 31.
// A device may take up to four times as long as it is told.
func AckExponent(d time.Duration) uint8 {
	for n := uint8(1); n < 31; n++ {
		if ackUnit<<n >= d {
			return n
		}
	}
	return 31
}

// AckTimeout is the inverse of AckExponent. 0 stands for no timeout.
func AckTimeout(exponent uint8) time.Duration {
	if exponent == 0 {
		return 0
	}
	return ackUnit << min(exponent, 31)
}

// PortState is the logical state of a port.
type PortState uint32

const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

func (s PortState) String() string {
	names := [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("port state %d", uint32(s))
}

// QPState is the state of a queue pair.
type QPState uint32

const (
	Reset QPState = iota
	Init
	RTR // ready to receive: answers requests, sends none
	RTS // ready to send
	SQD
	SQE
	Err
)

func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// LinkLayer is what a port is plugged into.
type LinkLayer uint8

const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

func (l LinkLayer) String() string {
	names := [...]string{"unspecified", "InfiniBand", "Ethernet"}
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("link layer %d", uint8(l))
}

// GIDType is how packets from a GID look. Values are those of enum
// ibv_gid_type, shifted by one so that zero is "not told".
type GIDType uint32

const (
	GIDUnknown GIDType = iota
	GIDInfiniBand
	GIDRoCEv1
	GIDRoCEv2
)

func (t GIDType) String() string {
	names := [...]string{"unknown type", "IB", "RoCE v1", "RoCE v2"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("GID type %d", uint32(t))
}

// Access is a set of rights, of a memory region or of a queue pair.
type Access int

const (
	AccessLocalWrite Access = 1 << 0 // READs of this host may land here
	AccessRemoteRead Access = 1 << 2 // peers may READ
)

// EventType is the kind of an asynchronous event.
type EventType uint32

const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
)

var eventNames = [...]string{
	EventCQErr:            "CQ_ERR",
	EventQPFatal:          "QP_FATAL",
	EventQPReqErr:         "QP_REQ_ERR",
	EventQPAccessErr:      "QP_ACCESS_ERR",
	EventCommEst:          "COMM_EST",
	EventSQDrained:        "SQ_DRAINED",
	EventPathMig:          "PATH_MIG",
	EventPathMigErr:       "PATH_MIG_ERR",
	EventDeviceFatal:      "DEVICE_FATAL",
	EventPortActive:       "PORT_ACTIVE",
	EventPortErr:          "PORT_ERR",
	EventLIDChange:        "LID_CHANGE",
	EventPKeyChange:       "PKEY_CHANGE",
	EventSMChange:         "SM_CHANGE",
	EventSRQErr:           "SRQ_ERR",
	EventSRQLimitReached:  "SRQ_LIMIT_REACHED",
	EventQPLastWQEReached: "QP_LAST_WQE_REACHED",
	EventClientReregister: "CLIENT_REREGISTER",
	EventGIDChange:        "GID_CHANGE",
	EventWQFatal:          "WQ_FATAL",
}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint32(t))
}
