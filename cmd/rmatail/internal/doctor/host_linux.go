package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/rdma"
)

const (
	// toolTimeout bounds a program that prints the firewall's rules.
	toolTimeout = 5 * time.Second
	// netlinkTimeout bounds an answer of the kernel, which takes microseconds.
	netlinkTimeout = 2 * time.Second
)

// Here is this machine, as this process sees it. It asks the kernel, libibverbs,
// and the tools of the packet filter, which takes up to some seconds.
func Here(ctx context.Context, want Want) (Host, error) {
	netdevs, err := rdma.Netdevs()
	if err != nil {
		return Host{}, err
	}
	h := Host{
		Want: want, Root: os.DirFS("/"), Devices: rdma.Devices, Netdevs: netdevs, Lifetimes: lifetimes(),
		Resources: resources(), Verbs: probeVerbs(mapMemory), Firewall: readFirewall(ctx), Clock: readClock(), Env: map[string]string{}, UID: os.Geteuid(),
	}
	h.NetnsMode, h.NetnsModeErr = rdma.NetnsMode()
	for _, name := range []string{"RDMAV_FORK_SAFE", "IBV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE", "KUBERNETES_SERVICE_HOST"} {
		h.Env[name] = os.Getenv(name)
	}
	return h, nil
}

// lifetimes are those of addresses that end. What cannot be asked ends never.
func lifetimes() map[netip.Addr]time.Duration {
	const forever = 1<<32 - 1
	ends := map[netip.Addr]time.Duration{}
	h, err := netlinkHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return ends
	}
	defer h.Close()
	addrs, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return ends
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && a.ValidLft > 0 && a.ValidLft < forever {
			ends[ip.Unmap()] = time.Duration(a.ValidLft) * time.Second
		}
	}
	return ends
}

// netlinkHandle is a socket whose answers are waited for a limited time.
func netlinkHandle(family int) (*netlink.Handle, error) {
	h, err := netlink.NewHandle(family)
	if err != nil {
		return nil, err
	}
	if err := h.SetSocketTimeout(netlinkTimeout); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// dumpTries is how often a list is asked for that changed while it was told.
const dumpTries = 4

// resources are what is in use on each device; none where the kernel does not
// tell.
func resources() map[string]map[string]uint64 {
	all := map[string]map[string]uint64{}
	h, err := netlinkHandle(unix.NETLINK_RDMA)
	if err != nil {
		return all
	}
	defer h.Close()
	for range dumpTries {
		list, err := h.RdmaResourceList()
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		if err == nil {
			for _, r := range list {
				all[r.Name] = r.RdmaResourceSummaryEntries
			}
		}
		break
	}
	return all
}

func mapMemory(n int) ([]byte, func(), error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("memory to register: %w", err)
	}
	return mem, func() { _ = unix.Munmap(mem) }, nil
}

func readClock() Clock {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return Clock{}
	}
	const unsynced = 0x40 // STA_UNSYNC
	return Clock{Known: true, Synced: t.Status&unsynced == 0, MaxError: time.Duration(t.Maxerror) * time.Microsecond}
}

// readFirewall asks the tools of the packet filter for its rules.
func readFirewall(ctx context.Context) Firewall {
	var f Firewall
	var errs []error
	for _, tool := range []struct {
		out  *[]byte
		args []string
	}{{&f.NFT, []string{"nft", "--json", "list", "ruleset"}}, {&f.IPv4, []string{"iptables-save"}}, {&f.IPv6, []string{"ip6tables-save"}}} {
		out, err := run(ctx, tool.args...)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*tool.out = out
	}
	var said []string
	for _, err := range errs {
		said = append(said, err.Error())
	}
	if len(errs) > 0 {
		f.Err = errors.New(strings.Join(said, "; "))
	}
	// Without the kernel's part nft cannot even ask, and there are no rules. The older
	// part has a file with the names of its tables.
	if _, err := os.Stat("/proc/net/ip_tables_names"); err != nil && f.NFT == nil && strings.Contains(strings.ToLower(strings.Join(said, "")), unix.EPROTONOSUPPORT.Error()) {
		f.Absent = true
	}
	return f
}

// run is a tool's output. It is looked for where tools of root are, too.
func run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	path, err := exec.LookPath(args[0])
	if err != nil {
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if found, ferr := exec.LookPath(dir + args[0]); ferr == nil {
				path, err = found, nil
				break
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not installed", args[0])
	}
	c := exec.CommandContext(ctx, path, args[1:]...)
	c.WaitDelay = time.Second
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("%s: %w %s", args[0], err, said)
	}
	return out, nil
}
