package rdma

import (
	"fmt"
	"io/fs"
	"net/netip"
)

// Device is an RDMA device as /sys/class/infiniband shows it.
type Device struct {
	Name     string
	NodeType string // kernel's text: "CA" for RoCE and InfiniBand, "RNIC" for iWARP
	Software bool   // rxe and the like: no hardware function below it
	Ports    []Port // by number
	Err      error  // why the ports are not known; other devices do not suffer from it
}

// Port is one port of a device.
type Port struct {
	Number    int
	State     string // kernel's word: "ACTIVE", "DOWN", "INIT", ...; "" not known
	LinkLayer LinkLayer
	LID       uint16     // InfiniBand only
	GIDs      []GIDEntry // live entries by index, annotated
	Netdevs   []string   // that the port serves: those of the GIDs, then the one it was made on
	Err       error      // why nothing of the GID table can be read
}

// Active reports whether the port can carry packets now.
func (p Port) Active() bool { return p.State == "ACTIVE" }

// Query says what a connection needs of this host's devices.
type Query struct {
	// Peer is the address of the other end of the bootstrap connection.
	Peer netip.Addr
	// Local is this end's address of that connection. When it belongs to the
	// netdev of a device, that device is used: it is what the peer's packets,
	// which are addressed to a GID of that device, are routed to. Zero: by
	// the route to the peer.
	Local netip.Addr
	// PeerGID and PeerType are what the peer chose; zero when it has not yet.
	PeerGID  GID
	PeerType GIDType
	// Device is the name that was asked for, "" any. Port 0 is any.
	Device string
	Port   int
	// GIDIndex is the index that was asked for, -1 any.
	GIDIndex int
}

// Choice is the way to a peer.
type Choice struct {
	Device Device
	Port   Port
	GID    GIDEntry
	Route  Route  // by which the device was found; zero when it was asked for and is not on any route
	Why    string // how the device was found, one line
	Trace  Trace  // verdicts on the port's GID table
	// PassedOver has the devices that were tried first, and why not them.
	PassedOver []DeviceReason
}

// String is one line for logs.
func (c Choice) String() string {
	return fmt.Sprintf("%s %v: %s", c.Device.Name, c.GID, c.Why)
}

// Host reads the RDMA devices of this machine. The zero value reads the real
// ones; tests set the fields. Methods may be called at once and keep nothing
// between calls: addresses come and go while a process runs, so ask again
// before each connection attempt, in some milliseconds.
type Host struct {
	Sysfs fs.FS // the sysfs tree; nil is /sys

	netdevs func() ([]Netdev, error)
	route   func(netip.Addr) (Route, error)
	mapped  func(netdev string) (device string, err error)
}

// Devices lists this machine's RDMA devices by name. No device is not an error.
func Devices() ([]Device, error) { return Host{}.Devices() }

// Netdevs lists the netdevs of this network namespace with their addresses,
// loopback included.
func Netdevs() ([]Netdev, error) { return hostNetdevs() }

// DeviceFor chooses device, port and GID to talk to a peer: see [Host.Choose].
func DeviceFor(q Query) (Choice, error) { return Host{}.Choose(q) }

// RouteTo returns how packets to the peer leave this network namespace. A
// link-local IPv6 address needs its zone. It waits for the kernel's answer for
// 2 s at most.
func RouteTo(peer netip.Addr) (Route, error) { return routeTo(peer) }

func (h Host) sysfs() fs.FS {
	if h.Sysfs == nil {
		return sysfsOfKernel()
	}
	return h.Sysfs
}

func (h Host) hostNetdevs() ([]Netdev, error) {
	if h.netdevs != nil {
		return h.netdevs()
	}
	return hostNetdevs()
}

func (h Host) routeTo(peer netip.Addr) (Route, error) {
	if h.route != nil {
		return h.route(peer)
	}
	return routeTo(peer)
}

// mappedDevice asks rdmamap, which can only read /sys.
func (h Host) mappedDevice(netdev string) (string, error) {
	switch {
	case h.mapped != nil:
		return h.mapped(netdev)
	case h.Sysfs != nil:
		return "", nil
	}
	return mappedDevice(netdev)
}
