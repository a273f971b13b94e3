package doctor

import (
	"io/fs"
	"net/netip"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
	"github.com/rmatail/rmatail/rdma"
)

// Want is what the host is to be good for. Zero fields ask for nothing special.
type Want struct {
	// ArenaBytes is the memory that a node on this host would export.
	ArenaBytes uint64
	// Device and GIDIndex are what was set by hand: "" and -1 for the choice.
	Device   string
	GIDIndex int
}

// Host is what a machine is known by. Its fields are set once.
type Host struct {
	Want Want

	// Root is the file tree, from "/" on.
	Root fs.FS
	// Devices lists the RDMA devices; a function, because reading their GID tables
	// takes a while.
	Devices func() ([]rdma.Device, error)
	// Netdevs of this network namespace.
	Netdevs []rdma.Netdev
	// Lifetimes has the addresses that end by themselves, if nobody renews them.
	Lifetimes map[netip.Addr]time.Duration
	// NetnsMode is whether RDMA devices are shared by network namespaces.
	NetnsMode    string
	NetnsModeErr error
	Verbs        Verbs
	// Resources are the objects in use on each device, by the kernel's words: "qp",
	// "mr", "ctx", ...
	Resources map[string]map[string]uint64
	Firewall  Firewall
	Clock     Clock
	// Env is the environment that libraries look at.
	Env map[string]string
	UID int
}

// Verbs is what libibverbs says.
type Verbs struct {
	Err     error // why it lists nothing
	Devices map[string]VerbsDevice
}

// VerbsDevice is what libibverbs says of one device when it is used.
type VerbsDevice struct {
	OpenErr error
	Attr    ibverbs.DeviceAttr
	Ports   map[int]ibverbs.PortAttr
	// Registered is how many bytes were registered to try it; RegisterErr is why
	// they could not, CQErr why there is no completion queue.
	Registered         uint64
	RegisterErr, CQErr error
}

// Firewall is the packet filter's rules, as its tools print them.
type Firewall struct {
	NFT    []byte // nft --json list ruleset
	IPv4   []byte // iptables-save
	IPv6   []byte // ip6tables-save
	Err    error  // of tools that did not print them
	Absent bool   // the kernel's packet filter is not loaded
}

// Clock is the state of the wall clock, as adjtimex(2) tells it.
type Clock struct {
	Known    bool
	Synced   bool
	MaxError time.Duration
}
