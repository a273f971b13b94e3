package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rmatail/rmatail/rdma"
)

// moduleState is whether the kernel has soft-RoCE.
type moduleState struct {
	can   bool // it is there, or can be loaded
	found string
	fix   []string // what to do first
}

// rxeModule finds out whether soft-RoCE can be had on this kernel.
func (e *exam) rxeModule() moduleState {
	release := e.release()
	if e.exists("sys/module/rdma_rxe") {
		return moduleState{can: true, found: "rdma_rxe is loaded"}
	}
	modules := "lib/modules/" + release
	there := e.fileOfModule("rdma_rxe", release)
	builtin := strings.Contains(e.text(modules+"/modules.builtin"), "/rdma_rxe.ko")
	switch option := e.config("CONFIG_RDMA_RXE"); {
	case builtin || option == "y":
		return moduleState{can: true, found: "rdma_rxe is built in"}
	case e.config("CONFIG_MODULES") == "n":
		return moduleState{found: "kernel " + release + " has no loadable modules, and no rdma_rxe built in: soft-RoCE needs another kernel", fix: []string{"boot a kernel of a distribution; scripts/rxe-vm of the source tree has one in a guest"}}
	case !there && option == "n":
		return moduleState{found: "kernel " + release + " was built without rdma_rxe", fix: e.otherKernel(release)}
	case !there && e.container() != "":
		return moduleState{found: "the kernel's modules are not visible in this container: load them on the host", fix: []string{"modprobe rdma_rxe   # on the host"}}
	case !there:
		return moduleState{found: fmt.Sprintf("kernel %s has no module rdma_rxe below /%s", release, modules), fix: e.otherKernel(release)}
	case e.text("proc/sys/kernel/modules_disabled") == "1":
		return moduleState{found: "rdma_rxe is there, but loading modules was disabled until the next boot (kernel.modules_disabled)", fix: []string{"reboot"}}
	}
	fix := []string{"modprobe rdma_rxe"}
	if before(e.kernel(), 6, 14) && !e.exists("sys/module/crc32_generic") && e.fileOfModule("crc32_generic", release) {
		// Kernels up to 6.13 look it up by name, and nothing pulls it in: without it
		// "rdma link add" fails with ENOENT.
		fix = append([]string{"modprobe crc32_generic"}, fix...)
	}
	found := "rdma_rxe is not loaded, and can be"
	if e.UID != 0 || !e.capable("CapEff", capSysModule) {
		found += " (by root)"
	}
	return moduleState{can: true, found: found, fix: fix}
}

func (e *exam) fileOfModule(name, release string) bool {
	return strings.Contains(e.text("lib/modules/"+release+"/modules.dep"), "/"+name+".ko") ||
		len(e.find(name+".ko*", "lib/modules/"+release+"/kernel/drivers/infiniband/sw/rxe", "lib/modules/"+release+"/kernel/crypto")) > 0
}

// otherKernel is how to get a kernel with soft-RoCE on this distribution.
func (e *exam) otherKernel(release string) []string {
	switch id := e.distribution(); {
	case id == "ubuntu":
		// An image's kernel may be older than what its repository still has.
		return []string{"apt-get update && apt-get install linux-modules-extra-" + release,
			"apt-get install --install-recommends linux-generic && reboot   # if apt does not find that package: the running kernel is no longer in the repository"}
	case id == "debian" && strings.Contains(release, "-cloud-"):
		return []string{"apt-get install linux-image-amd64 && reboot   # the cloud kernel is built without it"}
	case strings.Contains("fedora rhel centos rocky almalinux ol", id) && id != "":
		return []string{"dnf install kernel-modules-extra-" + release}
	}
	return []string{"modinfo rdma_rxe   # and the distribution's package of further kernel modules"}
}

// checkModules is about the modules below every device, and soft-RoCE.
func (e *exam) checkModules() {
	hardware, software := 0, 0
	for _, d := range e.devices {
		switch _, soft := e.rxe(d); {
		case soft:
			software++
		case slices.ContainsFunc(d.Ports, func(p rdma.Port) bool { return p.Active() && len(p.GIDs) > 0 }):
			hardware++ // others count as absent
		}
	}
	if len(e.devices) > 0 && !e.exists("sys/class/infiniband_verbs") {
		e.say("modules", "", Fail, "ib_uverbs, through which programs use the devices, is not loaded", "modprobe ib_uverbs")
	}
	state := e.rxeModule()
	switch {
	case hardware > 0 && !state.can:
		e.say("modules", "", OK, state.found+" (not needed: there is hardware)")
	case hardware > 0 || software > 0 || state.can && len(state.fix) == 0:
		e.say("modules", "", OK, state.found)
	case state.can:
		e.say("modules", "", OK, state.found, state.fix...)
	default:
		e.say("modules", "", Warn, state.found, state.fix...)
	}
	if (software > 0 || hardware == 0 && state.can) && !e.command("rdma") {
		e.say("modules", "", Warn, "the command rdma is not installed: soft-RoCE devices are made with it (kernels from 5.17 on have no other way)", e.install("iproute2", "iproute"))
	}
}

// rxeReport is trouble that users of soft-RoCE have reported of kernels.
type rxeReport struct {
	from, to []int  // kernel versions: from inclusive, to exclusive
	only     string // further words of the release
	text     string
}

// rxeReports have the sources in docs/doctor.md.
var rxeReports = []rxeReport{
	{[]int{0}, []int{4, 9}, "", "operations of more than 1,024 bytes fail on old drivers (RHEL 7): READs of a chunk take several packets"},
	{[]int{5, 4}, []int{5, 5}, "", "CPUs were reported stuck in the driver under endless retries (rmatail never asks for those)"},
	{[]int{5, 10}, []int{5, 13}, "", "local protection errors were reported on what worked before 5.10"},
	{[]int{5, 14}, []int{5, 15}, "", "hosts were reported dead of soft lockups in the driver"},
	{[]int{6, 17}, []int{6, 18}, "", "lost completions of two-sided transfers were reported; READs are one-sided"},
}

// checkRxeKernel is about soft-RoCE on kernels that it was reported bad on.
func (e *exam) checkRxeKernel() {
	v := e.kernel()
	for _, d := range e.devices {
		netdev, soft := e.rxe(d)
		if !soft || len(v) == 0 {
			continue
		}
		for _, r := range rxeReports {
			if !before(v, r.from...) && before(v, r.to...) {
				e.say("rxe", d.Name, Warn, fmt.Sprintf("soft-RoCE of kernel %s: %s", e.release(), r.text), "uname -r   # 6.1 and 6.12 are what rmatail is tested on")
			}
		}
		if netdev == "lo" {
			e.say("rxe", d.Name, Warn, "soft-RoCE on the loopback: it reaches this host alone, and no packet can be traced", "rdma link add rxe1 type rxe netdev "+e.someNetdev())
		}
	}
}
