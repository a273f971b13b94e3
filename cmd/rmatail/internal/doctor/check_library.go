package doctor

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

var libraryDirs = []string{"usr/lib/*-linux-gnu*", "usr/lib64", "usr/lib", "lib/*-linux-gnu*", "lib64", "usr/local/lib", "usr/local/lib64"}

// libraryName has ABI, major and minor version of rdma-core.
var libraryName = regexp.MustCompile(`libibverbs\.so\.1\.\d+\.(\d+)\.(\d+)$`)

// rdmaCore is the version of rdma-core, "" if not known.
func (e *exam) rdmaCore() string {
	for _, name := range e.find("libibverbs.so.1.*", libraryDirs...) {
		if m := libraryName.FindStringSubmatch(name); m != nil {
			return m[1] + "." + m[2]
		}
	}
	return ""
}

// checkLibrary is about libibverbs.
func (e *exam) checkLibrary() {
	verdict := Warn // a host without devices does not need it yet
	if len(e.devices) > 0 {
		verdict = Fail
	}
	switch err := e.Verbs.Err; {
	case errors.Is(err, ibverbs.ErrNoLibrary):
		fix := e.install("libibverbs1 ibverbs-providers", "libibverbs")
		e.say("library", "", verdict, "libibverbs.so.1 is not installed: RDMA is left out", fix)
	case errors.Is(err, ibverbs.ErrUnsupported):
		e.say("library", "", verdict, "this rmatail was built without verbs", "CGO_ENABLED=1 go build ./cmd/rmatail   # on Linux, with a C compiler and libibverbs-dev")
	case err != nil && len(e.devices) == 0:
		e.say("library", "", OK, fmt.Sprintf("libibverbs%s; %v", withVersion(e.rdmaCore()), err))
	case err != nil:
		e.say("library", "", Fail, fmt.Sprintf("libibverbs lists no device: %v", err), "modprobe ib_uverbs", "ls -l /dev/infiniband")
	default:
		e.say("library", "", OK, "libibverbs"+withVersion(e.rdmaCore()))
	}
}

func withVersion(v string) string {
	if v == "" {
		return ""
	}
	return " of rdma-core " + v
}

// providers are the parts of libibverbs by the kernel's driver of a device.
var providers = map[string]string{
	"mlx5_core": "mlx5", "mlx4_core": "mlx4", "bnxt_en": "bnxt_re", "bnxt_re": "bnxt_re", "ice": "irdma", "i40e": "irdma", "irdma": "irdma",
	"qede": "qedr", "qed": "qedr", "hns3": "hns", "hns_roce_hw_v2": "hns", "mana": "mana", "efa": "efa", "erdma": "erdma", "vmw_pvrdma": "vmw_pvrdma",
	"cxgb4": "cxgb4", "ocrdma": "ocrdma", "hfi1": "hfi1verbs", "ib_qib": "ipathverbs", "ib_mthca": "mthca", "ionic": "ionic",
}

// checkProviders is about devices that the kernel has and libibverbs does not.
func (e *exam) checkProviders() {
	if e.Verbs.Err != nil {
		return
	}
	for _, d := range e.devices {
		if _, listed := e.Verbs.Devices[d.Name]; listed || d.NodeType == "RNIC" {
			continue
		}
		name := "rxe"
		if _, soft := e.rxe(d); !soft {
			name = providers[e.driver(d)]
		}
		uverbs := e.uverbs(d.Name)
		if uverbs == "" {
			continue // says so elsewhere
		}
		var dirs []string
		for _, dir := range libraryDirs {
			dirs = append(dirs, path.Join(dir, "libibverbs"))
		}
		file := e.find("lib"+name+"-rdmav*.so", dirs...)
		fix := e.install("ibverbs-providers", "libibverbs")
		abi := e.text("sys/class/infiniband_verbs/" + uverbs + "/abi_version")
		switch {
		case name == "":
			e.say("provider", d.Name, Fail, fmt.Sprintf("libibverbs does not list it (kernel driver %s)", e.driver(d)), fix)
		case len(file) == 0:
			e.say("provider", d.Name, Fail, fmt.Sprintf("libibverbs does not list it: its provider lib%s is not installed", name), fix)
		default:
			e.say("provider", d.Name, Fail, fmt.Sprintf("libibverbs%s does not list it, though its provider %s is there: the two do not agree with the kernel's interface (ABI %s of kernel %s); use an image of about the kernel's age",
				withVersion(e.rdmaCore()), path.Base(file[0]), abi, e.release()), fix, "ibv_devices   # prints why on standard error")
		}
	}
	names := make([]string, 0, len(e.Verbs.Devices))
	for n := range e.Verbs.Devices {
		names = append(names, n)
	}
	if len(names) > 0 {
		slices.Sort(names)
		e.say("provider", "", OK, "libibverbs lists "+strings.Join(names, ", "))
	}
}
