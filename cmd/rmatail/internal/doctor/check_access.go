package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/rmatail/rmatail/rdma"
)

// uverbs is the character device of an RDMA device, "" if the kernel has none.
func (e *exam) uverbs(device string) string {
	for _, name := range e.entries("sys/class/infiniband_verbs") {
		if e.text("sys/class/infiniband_verbs/"+name+"/ibdev") == device {
			return name
		}
	}
	return ""
}

// checkAccess is about opening devices.
func (e *exam) checkAccess() {
	for _, d := range e.devices {
		if d.NodeType == "RNIC" || e.Want.Device != "" && e.Want.Device != d.Name {
			continue
		}
		node := e.uverbs(d.Name)
		v, listed := e.Verbs.Devices[d.Name]
		switch file := "dev/infiniband/" + node; {
		case node == "":
			if e.exists("sys/class/infiniband_verbs") {
				e.say("access", d.Name, Fail, "no /dev/infiniband/uverbs* belongs to it", "modprobe ib_uverbs")
			}
		case !e.exists(file):
			e.say("access", d.Name, Fail, "/"+file+" is missing", e.giveDevice(node)...)
		case !listed:
			// The library says more about it.
		case v.OpenErr != nil:
			e.cannotOpen(d, file, v.OpenErr)
		default:
			e.say("access", d.Name, OK, "/"+file+" can be opened")
		}
	}
}

// giveDevice is how a device file comes to where this process is.
func (e *exam) giveDevice(node string) []string {
	switch e.container() {
	case "kubernetes":
		return []string{"kubectl get nodes -o custom-columns=NAME:.metadata.name,RDMA:.status.allocatable   # is a device plugin there?",
			"add to the pod: resources: {limits: {rdma/hca_shared_devices_a: 1}}   # a hostPath mount gives the file, not the permission"}
	case "":
		return []string{"udevadm trigger --subsystem-match=infiniband_verbs", "modprobe ib_uverbs"}
	}
	return []string{"docker run --device=/dev/infiniband/" + node + " ...   # a volume gives the file, not the permission"}
}

func (e *exam) cannotOpen(d rdma.Device, file string, err error) {
	mode := "unknown mode"
	info, statErr := fs.Stat(e.Root, file)
	open := false
	if statErr == nil {
		mode = "mode " + info.Mode().Perm().String()
		open = info.Mode().Perm()&0o006 == 0o006 || e.UID == 0
	}
	switch {
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) && open:
		e.say("access", d.Name, Fail, fmt.Sprintf("/%s is there (%s), but the container's device cgroup does not let it be opened: %v", file, mode, err), e.giveDevice(path.Base(file))...)
	case errors.Is(err, syscall.EACCES):
		e.say("access", d.Name, Fail, fmt.Sprintf("user %d may not open /%s (%s)", e.UID, file, mode),
			"chmod 0666 /"+file, `echo 'KERNEL=="uverbs*", MODE="0666"' > /etc/udev/rules.d/90-rdma.rules   # for the next boot`)
	default:
		e.say("access", d.Name, Fail, fmt.Sprintf("cannot be opened: %v", err), "ibv_devinfo -d "+d.Name)
	}
}

// checkCgroup is about the limits of the rdma controller on this process.
func (e *exam) checkCgroup() {
	for _, d := range e.devices {
		for _, dir := range e.rdmaGroups() {
			limit := e.cgroupValues(path.Join(dir, "rdma.max"), d.Name)
			used := e.cgroupValues(path.Join(dir, "rdma.current"), d.Name)
			for kind, max := range limit {
				n, err := strconv.Atoi(max)
				if err != nil { // "max"
					continue
				}
				u, _ := strconv.Atoi(used[kind])
				verdict, fix := OK, []string(nil)
				if u >= n {
					verdict = Fail
				} else if n < 64 {
					verdict = Warn // a queue pair and what belongs to it take about five objects
				}
				if verdict != OK {
					fix = []string{fmt.Sprintf("echo '%s %s=max' > /%s", d.Name, kind, path.Join(dir, "rdma.max"))}
				}
				e.say("cgroup", d.Name, verdict, fmt.Sprintf("/%s allows %d of %s, %d are in use", dir, n, kind, u), fix...)
			}
		}
	}
}

// rdmaGroups are the control groups of this process with an rdma controller,
// innermost first.
func (e *exam) rdmaGroups() []string {
	var dirs []string
	for line := range strings.Lines(e.text("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base := "sys/fs/cgroup"
		switch {
		case parts[1] == "": // version 2
		case parts[1] == "rdma":
			base += "/rdma"
		default:
			continue
		}
		for at := path.Join("/", parts[2]); ; at = path.Dir(at) {
			if dir := path.Join(base, at); e.exists(path.Join(dir, "rdma.max")) {
				dirs = append(dirs, dir)
			}
			if at == "/" {
				break
			}
		}
	}
	return dirs
}

// cgroupValues reads the line of a device: "rxe0 hca_handle=2 hca_object=max".
func (e *exam) cgroupValues(name, device string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(e.text(name)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != device {
			continue
		}
		for _, w := range words[1:] {
			if k, v, ok := strings.Cut(w, "="); ok {
				values[k] = v
			}
		}
	}
	return values
}
