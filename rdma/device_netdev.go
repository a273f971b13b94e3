package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// portNetdevs are the netdevs that the port's GIDs name, and on InfiniBand the
// IPoIB netdevs whose hardware address ends in the port's GUID (RFC 4391,
// section 9.1.1). The node's GUID, which some tools compare with, differs from
// the port's on a second port.
func portNetdevs(p Port, netdevs []Netdev) []string {
	var names []string
	for _, e := range p.GIDs {
		if e.Netdev != "" {
			names = appendNew(names, e.Netdev)
		}
		if e.Type != TypeIB {
			continue
		}
		for _, d := range netdevs {
			if len(d.MAC) == 20 && [8]byte(d.MAC[12:]) == [8]byte(e.GID[8:]) {
				names = appendNew(names, d.Name)
			}
		}
	}
	return names
}

// functionNetdevs are the netdevs of the hardware function below a device: what
// is left to go by while the port has no GID. On a function with several ports
// dev_port, from 0, says which.
func functionNetdevs(sys fs.FS, dir string, port, ports int) []string {
	entries, err := fs.ReadDir(sys, path.Join(dir, "device", "net"))
	if err != nil {
		return nil
	}
	var names []string
	for _, n := range entries {
		if ports > 1 {
			text, err := readText(sys, path.Join(dir, "device", "net", n.Name(), "dev_port"))
			if number, nerr := strconv.Atoi(text); err != nil || nerr != nil || number+1 != port {
				continue
			}
		}
		names = append(names, n.Name())
	}
	return names
}

func appendNew(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// candidate is a port that may lead to the peer.
type candidate struct {
	device Device
	port   Port
}

// on returns the ports that serve a netdev, the best first, and how they were
// found: a port that is active, that has a GID, hardware before software, by
// name.
//
// What was read of sysfs for the GID tables answers for most netdevs, also where
// rdmamap does not: lo, tun, IPoIB on a second port, a device without a GID,
// several devices on a netdev, of which it names any. rdmamap is asked for the
// rest. Not first, because it reads the tables once more, through package os:
// 0.5 s for one rxe device in an emulated guest, where all else here takes 0.1 s.
func (h Host) on(netdev string, devices []Device) ([]candidate, string) {
	var found []candidate
	how := "by sysfs"
	for _, c := range candidates(devices) {
		if slices.Contains(c.port.Netdevs, netdev) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		mapped, err := h.mappedDevice(netdev)
		how = "by rdmamap"
		if err != nil || mapped == "" {
			how = "no device by sysfs or rdmamap"
		}
		for _, c := range candidates(devices) {
			if c.device.Name == mapped {
				found = append(found, c)
			}
		}
	}
	sortCandidates(found)
	if len(found) > 1 {
		names := make([]string, 0, len(found))
		for _, c := range found {
			names = append(names, c.String())
		}
		how = fmt.Sprintf("%s; %d on %s, in this order: %s (active, with a GID, hardware, name)",
			how, len(found), netdev, strings.Join(names, ", "))
	}
	return found, how
}

func candidates(devices []Device) []candidate {
	var all []candidate
	for _, d := range devices {
		for _, p := range d.Ports {
			all = append(all, candidate{d, p})
		}
	}
	return all
}

func sortCandidates(found []candidate) {
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(
			-compareBool(a.port.Active(), b.port.Active()),
			-compareBool(len(a.port.GIDs) > 0, len(b.port.GIDs) > 0),
			compareBool(a.device.Software, b.device.Software),
			compareNames(a.device.Name, b.device.Name),
			cmp.Compare(a.port.Number, b.port.Number),
		)
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (c candidate) String() string {
	if len(c.device.Ports) > 1 {
		return fmt.Sprintf("%s/%d", c.device.Name, c.port.Number)
	}
	return c.device.Name
}

// unusable says why the port cannot be used whatever its GIDs are.
func (c candidate) unusable() error {
	switch {
	case c.device.NodeType == "RNIC":
		return errors.New("iWARP, which is not supported")
	case c.port.State != "" && !c.port.Active():
		return fmt.Errorf("port is %s: bring the link and its netdev up", c.port.State)
	case c.port.Err != nil:
		return c.port.Err
	}
	return nil
}
