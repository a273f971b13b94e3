package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkKernel is about what shared memory needs of the kernel.
func (e *exam) checkKernel() {
	v := e.kernel()
	switch release := e.release(); {
	case len(v) == 0:
		e.say("kernel", "", Unknown, "the kernel's version cannot be read", "uname -r")
	case before(v, 5, 1):
		e.say("kernel", "", Warn, release+" cannot seal a memory file against writers (Linux 5.1 can): a node gives no shared memory, and its host's consumers read over TCP",
			e.install("linux-image-amd64", "kernel"))
	default:
		e.say("kernel", "", OK, "Linux "+release)
	}
}

// checkDevices is about whether there are RDMA devices at all.
func (e *exam) checkDevices() {
	if e.err != nil {
		e.say("devices", "", Unknown, fmt.Sprintf("the RDMA devices cannot be listed: %v", e.err), "ls -l /sys/class/infiniband")
		return
	}
	if len(e.devices) == 0 {
		found := "no RDMA device: this host reads over shared memory and TCP"
		if card, module := e.cardWithoutDriver(); card != "" {
			e.say("devices", "", Warn, fmt.Sprintf("%s; but %s is there, and the kernel's module %s, which makes it an RDMA device, is not loaded", found, card, module), "modprobe "+module)
			return
		}
		if e.NetnsMode == "exclusive" {
			e.say("devices", "", Warn, found+"; devices may be in another network namespace, as the RDMA subsystem keeps them apart (mode exclusive)",
				"rdma dev show   # in the host's namespace", "rdma dev set DEVICE netns NAME")
			return
		}
		e.say("devices", "", Warn, found, e.makeRxe()...)
		return
	}
	var names []string
	for _, d := range e.devices {
		switch {
		case d.Err != nil:
			e.say("devices", d.Name, Warn, fmt.Sprintf("cannot be read and is left out: %v", d.Err), "rdma link show", "ls -lR /sys/class/infiniband/"+d.Name+"/ports")
		case d.NodeType == "RNIC":
			e.say("devices", d.Name, Warn, "iWARP, which is not supported: it has neither GIDs nor a route header; it is left out", e.makeRxe()...)
		default:
			names = append(names, d.Name)
		}
	}
	if want := e.Want.Device; want != "" && !slices.Contains(names, want) {
		e.say("devices", want, Fail, fmt.Sprintf("asked for by --device, but it is not here; there are: %s", list(names)), "rdma link show")
	}
	if len(names) > 0 {
		e.say("devices", "", OK, fmt.Sprintf("%d of RoCE or InfiniBand: %s", len(names), list(names)))
	}
}

// rdmaModules are the modules that make RDMA devices of network cards, by the
// network driver of the card.
var rdmaModules = map[string]string{
	"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "bnxt_en": "bnxt_re", "ice": "irdma", "i40e": "irdma", "qede": "qedr", "qed": "qedr",
	"hns3": "hns_roce_hw_v2", "mana": "mana_ib", "ionic": "ionic_rdma",
}

// cardWithoutDriver finds a network card that could be an RDMA device.
func (e *exam) cardWithoutDriver() (card, module string) {
	for _, slot := range e.entries("sys/bus/pci/devices") {
		dir := path.Join("sys/bus/pci/devices", slot)
		if !strings.HasPrefix(e.text(path.Join(dir, "class")), "0x02") {
			continue // no network controller
		}
		driver := e.linkBase(path.Join(dir, "driver"))
		if m := rdmaModules[driver]; m != "" && !e.exists("sys/module/"+m) {
			return fmt.Sprintf("a card at PCI %s (driver %s)", slot, driver), m
		}
	}
	return "", ""
}

// makeRxe are the commands that make a soft-RoCE device, if this kernel can.
func (e *exam) makeRxe() []string {
	state := e.rxeModule()
	if !state.can {
		return state.fix
	}
	fix := state.fix
	return append(fix, "rdma link add rxe0 type rxe netdev "+e.someNetdev())
}

// someNetdev is the netdev that soft-RoCE would be made on: the first that has an
// address and is not the loopback.
func (e *exam) someNetdev() string {
	for _, d := range e.Netdevs {
		if d.Name != "lo" && len(d.Prefixes) > 0 && d.VLAN == 0 {
			return d.Name
		}
	}
	return "lo"
}
