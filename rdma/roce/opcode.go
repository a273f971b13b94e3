package roce

import "fmt"

// Opcode is the first byte of a BTH: transport service in the upper three bits,
// operation in the lower five (IBA specification, table 38).
type Opcode uint8

// Operations of the reliable connection service, the one that rmatail uses.
const (
	SendFirst         Opcode = 0x00
	SendMiddle        Opcode = 0x01
	SendLast          Opcode = 0x02
	SendLastImm       Opcode = 0x03
	SendOnly          Opcode = 0x04
	SendOnlyImm       Opcode = 0x05
	WriteFirst        Opcode = 0x06
	WriteMiddle       Opcode = 0x07
	WriteLast         Opcode = 0x08
	WriteLastImm      Opcode = 0x09
	WriteOnly         Opcode = 0x0a
	WriteOnlyImm      Opcode = 0x0b
	ReadRequest       Opcode = 0x0c
	ReadResponseFirst Opcode = 0x0d
	ReadResponseMid   Opcode = 0x0e
	ReadResponseLast  Opcode = 0x0f
	ReadResponseOnly  Opcode = 0x10
	Acknowledge       Opcode = 0x11 // ACK, NAK or RNR NAK: see AETH
	AtomicAcknowledge Opcode = 0x12
	CompareSwap       Opcode = 0x13
	FetchAdd          Opcode = 0x14
	SendLastInv       Opcode = 0x16
	SendOnlyInv       Opcode = 0x17

	// CNP is a congestion notification packet (annex A17.9.3).
	CNP Opcode = 0x81
)

// services are the names of the upper three bits.
var services = [8]string{0: "RC", 1: "UC", 2: "RD", 3: "UD", 5: "XRC"}

// headers that follow a BTH.
type headers struct {
	deth, reth, aeth bool
	other            int // bytes of headers that are not decoded
}

func (h headers) size() int {
	n := h.other
	if h.deth {
		n += dethSize
	}
	if h.reth {
		n += rethSize
	}
	if h.aeth {
		n += aethSize
	}
	return n
}

// operations are names and headers by the lower five bits. Immediate data and
// an invalidated R_Key take 4 bytes, an atomic request 28, its answer 8.
var operations = [32]struct {
	name string
	headers
}{
	0x00: {"SEND first", headers{}},
	0x01: {"SEND middle", headers{}},
	0x02: {"SEND last", headers{}},
	0x03: {"SEND last with immediate", headers{other: 4}},
	0x04: {"SEND only", headers{}},
	0x05: {"SEND only with immediate", headers{other: 4}},
	0x06: {"WRITE first", headers{reth: true}},
	0x07: {"WRITE middle", headers{}},
	0x08: {"WRITE last", headers{}},
	0x09: {"WRITE last with immediate", headers{other: 4}},
	0x0a: {"WRITE only", headers{reth: true}},
	0x0b: {"WRITE only with immediate", headers{reth: true, other: 4}},
	0x0c: {"READ request", headers{reth: true}},
	0x0d: {"READ response first", headers{aeth: true}},
	0x0e: {"READ response middle", headers{}},
	0x0f: {"READ response last", headers{aeth: true}},
	0x10: {"READ response only", headers{aeth: true}},
	0x11: {"acknowledge", headers{aeth: true}},
	0x12: {"atomic acknowledge", headers{aeth: true, other: 8}},
	0x13: {"compare and swap", headers{other: 28}},
	0x14: {"fetch and add", headers{other: 28}},
	0x16: {"SEND last with invalidate", headers{other: 4}},
	0x17: {"SEND only with invalidate", headers{other: 4}},
}

// String is service and operation, "RC READ request"; a number for an opcode
// that is not known.
func (o Opcode) String() string {
	service, op := services[o>>5], operations[o&0x1f]
	switch {
	case o == CNP:
		return "CNP"
	case service == "" || op.name == "":
		return fmt.Sprintf("opcode 0x%02x", uint8(o))
	}
	return service + " " + op.name
}

// headers returns what follows the BTH. Nothing is known to follow an opcode
// that is not known: all is payload.
func (o Opcode) headers() headers {
	h := operations[o&0x1f].headers
	switch o >> 5 {
	case 0, 1:
	case 3:
		h.deth = operations[o&0x1f].name != ""
	default:
		return headers{}
	}
	return h
}

// IsRead reports whether the packet is part of a one-sided READ: a request, or a
// response. A failed READ is answered by an Acknowledge with a NAK in its AETH.
func (o Opcode) IsRead() bool { return o >= ReadRequest && o <= ReadResponseOnly }

// IsReadResponse reports whether the packet carries bytes of a READ.
func (o Opcode) IsReadResponse() bool { return o >= ReadResponseFirst && o <= ReadResponseOnly }
