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

const classDir = "class/infiniband"

// Devices lists the RDMA devices below the root by name. A device that
// vanishes while it is read is left out; no device is not an error.
func (h Host) Devices() ([]Device, error) {
	netdevs, err := h.hostNetdevs()
	if err != nil {
		return nil, err
	}
	return h.devices(netdevs)
}

// DevicesIn lists the RDMA devices of a sysfs tree, which is /sys when it is nil,
// on netdevs that are known: of another machine, or of a fixture. It is a pure
// function of its arguments.
func DevicesIn(sys fs.FS, netdevs []Netdev) ([]Device, error) {
	return Host{Sysfs: sys}.devices(netdevs)
}

func (h Host) devices(netdevs []Netdev) ([]Device, error) {
	sys := h.sysfs()
	names, err := fs.ReadDir(sys, classDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list of RDMA devices: %w", err)
	}
	var out []Device
	for _, n := range names {
		if d := readDevice(sys, n.Name(), netdevs); !errors.Is(d.Err, fs.ErrNotExist) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Device) int { return compareNames(a.Name, b.Name) })
	return out, nil
}

func readDevice(sys fs.FS, name string, netdevs []Netdev) Device {
	dir := path.Join(classDir, name)
	d := Device{Name: name}
	if text, err := readText(sys, path.Join(dir, "node_type")); err == nil {
		d.NodeType = afterColon(text)
	}
	// rxe has an attribute with the netdev it was made on; no driver of
	// hardware has. What has neither it nor a function below is virtual too.
	made, madeErr := readText(sys, path.Join(dir, "parent"))
	_, below := fs.Stat(sys, path.Join(dir, "device"))
	d.Software = madeErr == nil || below != nil

	ports, err := fs.ReadDir(sys, path.Join(dir, "ports"))
	if err != nil {
		d.Err = fmt.Errorf("list of ports: %w", err)
	}
	for _, n := range ports {
		number, err := strconv.Atoi(n.Name())
		if err != nil || number < 1 {
			continue
		}
		p := readPort(sys, path.Join(dir, "ports", n.Name()), number)
		AnnotateGIDs(p.GIDs, netdevs)
		p.Netdevs = portNetdevs(p, netdevs)
		if madeErr == nil {
			p.Netdevs = appendNew(p.Netdevs, made)
		}
		for _, netdev := range functionNetdevs(sys, dir, number, len(ports)) {
			p.Netdevs = appendNew(p.Netdevs, netdev)
		}
		d.Ports = append(d.Ports, p)
	}
	slices.SortFunc(d.Ports, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
	return d
}

func readPort(sys fs.FS, dir string, number int) Port {
	p := Port{Number: number}
	if text, err := readText(sys, path.Join(dir, "state")); err == nil {
		p.State = afterColon(text)
	}
	if text, err := readText(sys, path.Join(dir, "link_layer")); err == nil {
		switch text {
		case "InfiniBand":
			p.LinkLayer = LinkLayerInfiniBand
		case "Ethernet":
			p.LinkLayer = LinkLayerEthernet
		}
	}
	if text, err := readText(sys, path.Join(dir, "lid")); err == nil {
		if lid, err := strconv.ParseUint(text, 0, 16); err == nil {
			p.LID = uint16(lid)
		}
	}
	p.GIDs, p.Err = readGIDs(sys, dir, number, p.LinkLayer)
	return p
}

// afterColon is the word in "4: ACTIVE".
func afterColon(text string) string {
	if _, word, ok := strings.Cut(text, ":"); ok {
		return strings.TrimSpace(word)
	}
	return text
}

// compareNames orders mlx5_2 before mlx5_10.
func compareNames(a, b string) int {
	headA, numA := splitNumber(a)
	headB, numB := splitNumber(b)
	return cmp.Or(cmp.Compare(headA, headB), cmp.Compare(numA, numB), cmp.Compare(a, b))
}

func splitNumber(name string) (string, uint64) {
	head := strings.TrimRight(name, "0123456789")
	n, err := strconv.ParseUint(name[len(head):], 10, 64)
	if err != nil {
		return name, 0
	}
	return head, n
}
