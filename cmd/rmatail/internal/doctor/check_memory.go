package doctor

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"

	"github.com/rmatail/rmatail/rdma"
)

const (
	unlimited = math.MaxUint64
	// readerBytes is what one connection of a reader registers if nothing else is
	// set (rdma.Config.BufferBytes).
	readerBytes = 4 << 20
	// defaultArena is that of a node if nothing else is set.
	defaultArena = 64 << 20
)

// need is what a node on this host would register.
func (e *exam) need() uint64 {
	if e.Want.ArenaBytes > 0 {
		return e.Want.ArenaBytes
	}
	return defaultArena
}

// memlock reads the limit of locked memory of this process, in bytes.
func (e *exam) memlock() (soft, hard uint64, ok bool) {
	const name = "Max locked memory"
	for line := range strings.Lines(e.text("proc/self/limits")) {
		rest, found := strings.CutPrefix(line, name)
		if !found {
			continue
		}
		words := strings.Fields(rest)
		if len(words) < 2 {
			return 0, 0, false
		}
		read := func(w string) uint64 {
			if w == "unlimited" {
				return unlimited
			}
			n, err := strconv.ParseUint(w, 10, 64)
			ok = ok && err == nil
			return n
		}
		ok = true
		soft, hard = read(words[0]), read(words[1])
		return soft, hard, ok
	}
	return 0, 0, false
}

// checkMemlock is about how much memory may be registered: it is locked.
func (e *exam) checkMemlock() {
	soft, hard, ok := e.memlock()
	need := e.need()
	bad := Fail
	if len(e.devices) == 0 {
		bad = Warn // nothing is registered here yet
	}
	privileged := e.capable("CapEff", capIPCLock)
	switch {
	case !ok:
		e.say("memlock", "", Unknown, "the limit of locked memory (RLIMIT_MEMLOCK) cannot be read", "ulimit -l")
	case soft == unlimited:
		e.say("memlock", "", OK, "locked memory is not limited")
	case privileged && !e.userNamespace():
		e.say("memlock", "", OK, fmt.Sprintf("limit %s, which does not bind: this process has CAP_IPC_LOCK", mib(soft)))
	case soft >= need:
		e.say("memlock", "", OK, fmt.Sprintf("limit %s; a node with an arena of %s registers so much on each device, a reader %s for each connection", mib(soft), mib(need), mib(readerBytes)))
	case hard >= need:
		e.say("memlock", "", bad, fmt.Sprintf("limit %s, below the arena's %s; this user may raise it", mib(soft), mib(need)), "ulimit -l unlimited")
	default:
		found := fmt.Sprintf("limit %s, below the %s that a node registers", mib(soft), mib(need))
		if soft < readerBytes {
			found += fmt.Sprintf(", and the %s of a reader's connection", mib(readerBytes))
		}
		switch {
		case privileged:
			found += "; CAP_IPC_LOCK does not help in a user namespace"
		case e.capable("CapBnd", capIPCLock) && e.UID != 0 && e.container() != "":
			found += fmt.Sprintf("; the container was given CAP_IPC_LOCK, but only root in it gets that to work, and this is user %d", e.UID)
		}
		e.say("memlock", "", bad, found, e.raiseMemlock()...)
	}
}

// raiseMemlock is how the limit is raised here.
func (e *exam) raiseMemlock() []string {
	const dropIn = `printf '[Service]\nLimitMEMLOCK=infinity\n'`
	switch e.container() {
	case "kubernetes":
		return []string{"mkdir -p /etc/systemd/system/containerd.service.d && " + dropIn + " > /etc/systemd/system/containerd.service.d/memlock.conf   # on each node of the cluster",
			"systemctl daemon-reload && systemctl restart containerd   # then start the pod anew"}
	case "docker", "containerd":
		return []string{"docker run --ulimit memlock=-1:-1 ..."}
	case "podman", "libpod", "lxc":
		return []string{"podman run --ulimit memlock=-1:-1 ..."}
	}
	return []string{"prlimit --memlock=unlimited --pid $$   # as root, for this shell and what it starts",
		"mkdir -p /etc/systemd/system/rmatail.service.d && " + dropIn + " > /etc/systemd/system/rmatail.service.d/memlock.conf && systemctl daemon-reload   # for a service",
		`echo '* - memlock unlimited' > /etc/security/limits.d/90-rdma.conf   # for users that log in`,
		"setcap cap_ipc_lock+ep rmatail   # or for the program alone"}
}

// checkRegister is about what was tried on each device: registering a little
// memory, and making a completion queue.
func (e *exam) checkRegister() {
	for _, d := range e.devices {
		v, listed := e.Verbs.Devices[d.Name]
		if !listed || v.OpenErr != nil {
			continue
		}
		soft, _, known := e.memlock()
		bound := known && soft != unlimited && (!e.capable("CapEff", capIPCLock) || e.userNamespace())
		for _, c := range []struct {
			what string
			err  error
		}{{"a completion queue", v.CQErr}, {mib(v.Registered) + " of memory", v.RegisterErr}} {
			switch err := c.err; {
			case err == nil:
			case errors.Is(err, syscall.ENOMEM) && bound:
				e.say("register", d.Name, Fail, fmt.Sprintf("%s: %v; RLIMIT_MEMLOCK is %s", c.what, err, mib(soft)), e.raiseMemlock()...)
			case errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN):
				e.say("register", d.Name, Fail, fmt.Sprintf("%s: %v, though locked memory is not limited: the device has no room for more keys, taken by other programs, or left by killed ones (a fault of some firmware)", c.what, err),
					"rdma resource show   # who has them", "dmesg | grep -i mkey", "devlink dev reload "+e.devlink(d)+"   # gives back what nobody has; ends RDMA on the card for seconds")
			default:
				e.say("register", d.Name, Fail, fmt.Sprintf("%s: %v", c.what, err), "dmesg | tail")
			}
		}
		if v.RegisterErr != nil || v.CQErr != nil {
			continue
		}
		e.say("register", d.Name, OK, fmt.Sprintf("%s registered and released again", mib(v.Registered)))
		if max := v.Attr.MaxMRSize; max > 0 && max < e.need() {
			e.say("register", d.Name, Fail, fmt.Sprintf("the device registers at most %s at once, the arena has %s", mib(max), mib(e.need())), fmt.Sprintf("rmatail serve --arena %d", max))
		}
	}
}

// checkResources is about what is in use on each device.
func (e *exam) checkResources() {
	for _, d := range e.devices {
		used, known := e.Resources[d.Name]
		if !known {
			continue
		}
		attr := e.Verbs.Devices[d.Name].Attr
		found := fmt.Sprintf("%d queue pairs, %d memory regions, opened %d times", used["qp"], used["mr"], used["ctx"])
		if used["ctx"] > 0 {
			found += " (whoever removes the device waits for those)"
		}
		full := func(n uint64, most int) bool { return most > 0 && n*10 > uint64(most)*9 }
		if full(used["qp"], attr.MaxQP) || full(used["mr"], attr.MaxMR) {
			e.say("resources", d.Name, Warn, fmt.Sprintf("%s, of %d and %d: nearly all", found, attr.MaxQP, attr.MaxMR), "rdma resource show qp link "+d.Name+"   # whose they are", "rdma resource show mr dev "+d.Name)
			continue
		}
		e.say("resources", d.Name, OK, found)
	}
}

// devlink is a device's handle for the command of that name.
func (e *exam) devlink(d rdma.Device) string {
	if slot := e.linkBase("sys/class/infiniband/" + d.Name + "/device"); slot != "" {
		return "pci/" + slot
	}
	return "pci/SLOT"
}

// checkHugePages is about what serve --huge-pages would find.
func (e *exam) checkHugePages() {
	values := map[string]uint64{}
	for line := range strings.Lines(e.text("proc/meminfo")) {
		name, rest, _ := strings.Cut(line, ":")
		if words := strings.Fields(rest); len(words) > 0 {
			if n, err := strconv.ParseUint(words[0], 10, 64); err == nil {
				values[name] = n
			}
		}
	}
	size := values["Hugepagesize"] << 10
	if size == 0 {
		e.say("hugepages", "", OK, "the kernel has none; they are optional (serve --huge-pages)")
		return
	}
	pages := (e.need() + size - 1) / size
	free := values["HugePages_Free"] - min(values["HugePages_Rsvd"], values["HugePages_Free"])
	fix := fmt.Sprintf("sysctl -w vm.nr_hugepages=%d", values["HugePages_Total"]+pages-min(free, pages))
	switch {
	case values["HugePages_Total"] == 0:
		e.say("hugepages", "", OK, fmt.Sprintf("none reserved; they are optional: serve --huge-pages would need %d of %s", pages, mib(size)), fix)
	case free < pages:
		e.say("hugepages", "", Warn, fmt.Sprintf("%d of %d pages of %s are free, serve --huge-pages needs %d", free, values["HugePages_Total"], mib(size), pages), fix)
	default:
		e.say("hugepages", "", OK, fmt.Sprintf("%d of %s are free, %d are needed", free, mib(size), pages))
	}
}

// checkFork is about variables that make libibverbs prepare for fork. This
// program does not fork, so they only cost: registering is slow, and fails with
// huge pages.
func (e *exam) checkFork() {
	for _, name := range []string{"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"} {
		if e.Env[name] == "" {
			continue
		}
		found := name + " is set: registering memory is slow, for nothing, as rmatail does not fork"
		if e.Env["RDMAV_HUGEPAGES_SAFE"] == "" {
			found += "; with huge pages it fails"
		}
		e.say("fork", "", Warn, found, "unset RDMAV_FORK_SAFE IBV_FORK_SAFE")
	}
}
