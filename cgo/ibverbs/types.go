package ibverbs

import (
	"fmt"
	"net/netip"
	"time"
	"unsafe"
)

// MaxReads bounds the reads of one PostPoll.
const MaxReads = 256

// DeviceInfo is a device as the library lists it.
type DeviceInfo struct {
	Name string // of the kernel, as in /sys/class/infiniband
	GUID uint64
}

// DeviceAttr is what a device says of itself.
type DeviceAttr struct {
	Firmware  string
	NodeGUID  uint64
	VendorID  uint32
	PartID    uint32
	HWVersion uint32
	Ports     int // numbered from 1

	MaxMRSize uint64
	MaxQP     int
	MaxQPWR   int // work requests of one queue
	MaxCQ     int
	MaxCQE    int
	MaxMR     int
	MaxPD     int

	MaxRdAtomic     int // READs in flight per queue pair, as responder (max_qp_rd_atom)
	MaxInitRdAtomic int // as requester (max_qp_init_rd_atom)
	MaxResRdAtomic  int // READs in flight of all queue pairs, as responder
}

// PortAttr is the state of a port when it was asked for.
type PortAttr struct {
	State     PortState
	Link      LinkLayer
	MaxMTU    MTU
	ActiveMTU MTU // follows the netdev's MTU, without an event
	LID       uint16
	SMLID     uint16
	MaxMsg    uint32 // bytes of one READ
	GIDs      int    // length of the GID table, empty rows included
}

// GIDEntry is one live row of the GID table.
type GIDEntry struct {
	GID     [16]byte // network order
	Index   int
	Port    int
	Type    GIDType // GIDUnknown when the library cannot tell (rdma-core before 32)
	Ifindex int     // of the netdev in this network namespace, 0 none or not known
}

// Path is the address vector of a queue pair: an InfiniBand address (DLID), a
// global one (GRH), or both.
type Path struct {
	Port int
	DLID uint16 // InfiniBand only
	SL   uint8
	GRH  *GlobalRoute // nil: by DLID alone, which Ethernet does not have
}

// GlobalRoute is the global route header: to DGID, from the GID at SGIDIndex.
type GlobalRoute struct {
	DGID         [16]byte
	SGIDIndex    int // 0..255
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits; on RoCE v2 it picks the UDP source port
}

// RTRAttr is what INIT to RTR sets.
type RTRAttr struct {
	Path            Path
	PathMTU         MTU
	DestQPN         uint32 // 24 bits
	PSN             uint32 // 24 bits, the peer's first
	MaxDestRdAtomic int    // READs of the peer in flight, at most DeviceAttr.MaxRdAtomic
}

// RTSAttr is what RTR to RTS sets.
type RTSAttr struct {
	PSN         uint32        // 24 bits, our first
	MaxRdAtomic int           // READs of ours in flight, at most DeviceAttr.MaxInitRdAtomic
	AckTimeout  time.Duration // per try, rounded up to 4.096 us x 2^n, n >= 1
	Retries     int           // 0..7; 7 is for ever on some devices
	RNRRetries  int           // 0..7; 7 is for ever
}

// QPAttr is the state of a queue pair.
type QPAttr struct {
	State           QPState
	PathMTU         MTU
	DestQPN         uint32
	SQPSN, RQPSN    uint32
	Access          Access
	MaxSend         int
	MaxRecv         int
	MaxRdAtomic     int
	MaxDestRdAtomic int
	AckTimeout      time.Duration
	Retries         int
	RNRRetries      int
}

// AsyncEvent is an asynchronous event of a device. Which of the numbers is set
// depends on the type; the others are 0.
type AsyncEvent struct {
	Type EventType
	Port int    // port and GID events
	QPN  uint32 // queue pair events
	CQ   uint32 // CQErr: CQ.Handle
}

func (e AsyncEvent) String() string {
	switch {
	case e.Port != 0:
		return fmt.Sprintf("%v port %d", e.Type, e.Port)
	case e.QPN != 0:
		return fmt.Sprintf("%v QP %d", e.Type, e.QPN)
	}
	return e.Type.String()
}

// Read is one READ: Length bytes at the peer's address Remote to the bytes from
// Local on of the destination MR. C reads this struct in place.
type Read struct {
	ID       uint64 // comes back in WC.ID
	Remote   uint64
	Local    uint64 // offset in the MR
	Length   uint32
	Signaled uint32 // 1: completes with a WC also on success; 0: only on error
}

// WC is one completion. Of a failed one, only these fields mean anything
// (ibv_poll_cq(3)), so there are no others. C writes this struct in place.
type WC struct {
	ID        uint64
	Status    Status
	VendorErr uint32
	QPN       uint32
	_         uint32
}

// Counts is what a PostPoll did.
type Counts struct {
	Posted int // reads on the queue: all, or those before the one refused
	Polled int // completions taken
}

// The layouts that C relies on; data.c has the same numbers.
const (
	_ = uint(unsafe.Sizeof(Read{}) - 32)
	_ = uint(32 - unsafe.Sizeof(Read{}))
	_ = uint(0 - unsafe.Offsetof(Read{}.ID))
	_ = uint(8-unsafe.Offsetof(Read{}.Remote)) + uint(unsafe.Offsetof(Read{}.Remote)-8)
	_ = uint(16-unsafe.Offsetof(Read{}.Local)) + uint(unsafe.Offsetof(Read{}.Local)-16)
	_ = uint(24-unsafe.Offsetof(Read{}.Length)) + uint(unsafe.Offsetof(Read{}.Length)-24)
	_ = uint(28-unsafe.Offsetof(Read{}.Signaled)) + uint(unsafe.Offsetof(Read{}.Signaled)-28)
	_ = uint(24-unsafe.Sizeof(WC{})) + uint(unsafe.Sizeof(WC{})-24)
	_ = uint(8-unsafe.Offsetof(WC{}.Status)) + uint(unsafe.Offsetof(WC{}.Status)-8)
	_ = uint(12-unsafe.Offsetof(WC{}.VendorErr)) + uint(unsafe.Offsetof(WC{}.VendorErr)-12)
	_ = uint(16-unsafe.Offsetof(WC{}.QPN)) + uint(unsafe.Offsetof(WC{}.QPN)-16)
)

// describe lists the attributes for an error message.
func (a RTRAttr) describe() string {
	s := fmt.Sprintf("port %d, path MTU %d, peer QP %d, max_dest_rd_atomic %d", a.Path.Port, a.PathMTU, a.DestQPN, a.MaxDestRdAtomic)
	if a.Path.DLID != 0 {
		s += fmt.Sprintf(", dlid %d", a.Path.DLID)
	}
	if g := a.Path.GRH; g != nil {
		s += fmt.Sprintf(", sgid_index %d, dgid %v", g.SGIDIndex, netip.AddrFrom16(g.DGID))
	}
	return s
}

func (a RTSAttr) describe() string {
	return fmt.Sprintf("max_rd_atomic %d, ACK timeout %v, retries %d, RNR retries %d", a.MaxRdAtomic, AckTimeout(AckExponent(a.AckTimeout)), a.Retries, a.RNRRetries)
}

// invalid names an attribute that the library's struct has no room for.
func (a RTRAttr) invalid() string {
	switch g := a.Path.GRH; {
	case !a.PathMTU.Valid():
		return "path MTU is not 256, 512, 1024, 2048 or 4096"
	case a.DestQPN>>24 != 0:
		return "peer QP number is over 24 bits"
	case a.PSN>>24 != 0:
		return "PSN is over 24 bits"
	case a.MaxDestRdAtomic < 0 || a.MaxDestRdAtomic > 255:
		return "max_dest_rd_atomic is over 8 bits"
	case a.Path.Port < 1 || a.Path.Port > 255:
		return "port is not in 1..255"
	case g != nil && (g.SGIDIndex < 0 || g.SGIDIndex > 255):
		return "sgid_index is over 8 bits: remove unused addresses of the netdev to get a lower one"
	case g != nil && g.FlowLabel>>20 != 0:
		return "flow label is over 20 bits"
	}
	return ""
}

func (a RTSAttr) invalid() string {
	switch {
	case a.PSN>>24 != 0:
		return "PSN is over 24 bits"
	case a.MaxRdAtomic < 0 || a.MaxRdAtomic > 255:
		return "max_rd_atomic is over 8 bits"
	case a.Retries < 0 || a.Retries > 7:
		return "retries are not in 0..7"
	case a.RNRRetries < 0 || a.RNRRetries > 7:
		return "RNR retries are not in 0..7"
	}
	return ""
}
