package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/cgo/ibverbs"
	"github.com/rmatail/rmatail/rdma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a Host made of text: testdata/README.txt has its grammar.
type machine struct {
	tb     testing.TB
	tree   fstest.MapFS
	broken map[string]error
	host   Host
}

// ReadFile fails for broken files as the kernel does: at the read.
func (m *machine) ReadFile(name string) ([]byte, error) {
	if err := m.broken[name]; err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return m.tree.ReadFile(name)
}
func (m *machine) Open(name string) (fs.File, error)          { return m.tree.Open(name) }
func (m *machine) Stat(name string) (fs.FileInfo, error)      { return m.tree.Stat(name) }
func (m *machine) ReadDir(name string) ([]fs.DirEntry, error) { return m.tree.ReadDir(name) }
func (m *machine) Glob(pattern string) ([]string, error)      { return m.tree.Glob(pattern) }
func (m *machine) ReadLink(name string) (string, error)       { return m.tree.ReadLink(name) }
func (m *machine) Lstat(name string) (fs.FileInfo, error)     { return m.tree.Lstat(name) }

// below is a directory of a machine as a tree of its own.
type below struct {
	m   *machine
	dir string
}

func (b below) Open(name string) (fs.File, error)    { return b.m.Open(path.Join(b.dir, name)) }
func (b below) ReadFile(name string) ([]byte, error) { return b.m.ReadFile(path.Join(b.dir, name)) }

// newMachine reads a machine from a file of testdata, and changes to it.
func newMachine(tb testing.TB, file string, changes ...string) *machine {
	tb.Helper()
	m := &machine{tb: tb, tree: fstest.MapFS{}, broken: map[string]error{}}
	m.host = Host{Want: Want{GIDIndex: -1}, Root: m, Env: map[string]string{}, Lifetimes: map[netip.Addr]time.Duration{}, Resources: map[string]map[string]uint64{},
		Verbs: Verbs{Devices: map[string]VerbsDevice{}}}
	m.host.Devices = func() ([]rdma.Device, error) { return rdma.DevicesIn(below{m, "sys"}, m.host.Netdevs) }
	m.include(file)
	for _, c := range changes {
		m.read(c)
	}
	return m
}

func (m *machine) include(file string) {
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		m.tb.Fatal(err)
	}
	m.read(string(b))
}

func (m *machine) read(text string) {
	m.tb.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word[0] == '@':
			m.fact(word[1:], rest)
		case word[0] == '-':
			for name := range m.tree {
				if name == word[1:] || strings.HasPrefix(name, word[1:]+"/") {
					delete(m.tree, name)
				}
			}
		case strings.HasPrefix(rest, "-> "):
			m.tree[word] = &fstest.MapFile{Data: []byte(rest[3:]), Mode: fs.ModeSymlink | 0o777}
		case strings.HasPrefix(rest, "!device "):
			mode, err := strconv.ParseUint(strings.TrimPrefix(rest, "!device "), 8, 32)
			m.check(err, line)
			m.tree[word] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | fs.FileMode(mode)}
		case strings.HasPrefix(rest, "!"):
			m.tree[word] = &fstest.MapFile{}
			m.broken[word] = m.errno(rest[1:])
		default:
			m.tree[word] = &fstest.MapFile{Data: []byte(unescape(rest) + "\n")}
			delete(m.broken, word)
		}
	}
}

func unescape(s string) string { return strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(s) }

func (m *machine) check(err error, line string) {
	m.tb.Helper()
	if err != nil {
		m.tb.Fatalf("machine line %q: %v", line, err)
	}
}

func (m *machine) errno(name string) error {
	for n, e := range map[string]error{"EINVAL": syscall.EINVAL, "ENODATA": syscall.ENODATA, "EIO": syscall.EIO, "ENODEV": syscall.ENODEV, "EPERM": syscall.EPERM,
		"EACCES": syscall.EACCES, "ENOMEM": syscall.ENOMEM, "EAGAIN": syscall.EAGAIN, "EFAULT": syscall.EFAULT} {
		if n == name {
			return e
		}
	}
	m.tb.Fatalf("no error is called %q", name)
	return nil
}

// fact reads what is in no file.
func (m *machine) fact(kind, rest string) {
	m.tb.Helper()
	words := strings.Fields(rest)
	switch kind {
	case "include":
		m.include(rest)
	case "gid":
		m.gid(words)
	case "netdev":
		m.netdev(words)
	case "lifetime":
		d, err := time.ParseDuration(words[1])
		m.check(err, rest)
		m.host.Lifetimes[netip.MustParseAddr(words[0])] = d
	case "resources":
		counts := map[string]uint64{}
		for _, w := range words[1:] {
			kind, count, _ := strings.Cut(w, "=")
			n, err := strconv.ParseUint(count, 10, 64)
			m.check(err, rest)
			counts[kind] = n
		}
		m.host.Resources[words[0]] = counts
	case "mode":
		m.host.NetnsMode = rest
	case "library":
		m.host.Verbs = Verbs{Err: map[string]error{"none": ibverbs.ErrNoLibrary, "unsupported": ibverbs.ErrUnsupported,
			"ENOSYS": &ibverbs.Error{Op: "ibv_get_device_list", Errno: syscall.ENOSYS}}[rest]}
	case "verbs":
		m.verbs(words[0], words[1:])
	case "uid":
		n, err := strconv.Atoi(rest)
		m.check(err, rest)
		m.host.UID = n
	case "env":
		name, value, _ := strings.Cut(rest, "=")
		m.host.Env[name] = value
	case "arena":
		n, err := strconv.ParseUint(rest, 10, 64)
		m.check(err, rest)
		m.host.Want.ArenaBytes = n
	case "clock":
		m.host.Clock = Clock{Known: true, Synced: rest == "synced", MaxError: 5 * time.Millisecond}
	case "nft":
		m.host.Firewall.NFT = []byte(unescape(rest))
	case "iptables":
		m.host.Firewall.IPv4 = []byte(unescape(rest))
	default:
		m.tb.Fatalf("no fact is called %q", kind)
	}
}

func (m *machine) gid(w []string) {
	m.tb.Helper()
	if len(w) != 6 {
		m.tb.Fatalf("@gid %v", w)
	}
	dir := fmt.Sprintf("sys/class/infiniband/%s/ports/%s/", w[0], w[1])
	set := func(name, content string) { m.read(dir + name + " " + content) }
	for i := range 16 {
		if n := strconv.Itoa(i); m.tree[dir+"gids/"+n] == nil {
			set("gids/"+n, "0000:0000:0000:0000:0000:0000:0000:0000")
			set("gid_attrs/types/"+n, "!EINVAL")
			set("gid_attrs/ndevs/"+n, "!EINVAL")
		}
	}
	set("gids/"+w[2], w[5])
	set("gid_attrs/types/"+w[2], map[string]string{"v1": "IB/RoCE v1", "v2": "RoCE v2", "ib": "IB/RoCE v1"}[w[3]])
	if w[4] == "-" {
		w[4] = "!EINVAL"
	}
	set("gid_attrs/ndevs/"+w[2], w[4])
}

func (m *machine) netdev(w []string) {
	m.tb.Helper()
	d := rdma.Netdev{Name: w[0]}
	var err error
	d.Index, err = strconv.Atoi(w[1])
	m.check(err, w[0])
	if w[2] != "-" {
		d.MAC, err = net.ParseMAC(w[2])
		m.check(err, w[0])
	}
	for _, word := range w[3:] {
		if vlan, ok := strings.CutPrefix(word, "vlan="); ok {
			_, err := fmt.Sscanf(strings.Replace(vlan, ":", " ", 1), "%d %s", &d.VLAN, &d.Parent)
			m.check(err, word)
			continue
		}
		d.Prefixes = append(d.Prefixes, netip.MustParsePrefix(word))
	}
	m.host.Netdevs = slices.DeleteFunc(m.host.Netdevs, func(o rdma.Netdev) bool { return o.Name == d.Name })
	m.host.Netdevs = append(m.host.Netdevs, d)
}

// verbs sets what libibverbs says of a device; "absent" takes it off the list.
func (m *machine) verbs(name string, settings []string) {
	m.tb.Helper()
	v := m.host.Verbs.Devices[name]
	if v.Ports == nil {
		v.Ports = map[int]ibverbs.PortAttr{}
	}
	v.Registered = probeBytes
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "mtu":
			n, err := strconv.Atoi(value)
			m.check(err, s)
			for port := range 2 {
				v.Ports[port+1] = ibverbs.PortAttr{State: ibverbs.PortActive, ActiveMTU: ibverbs.MTU(n)}
			}
		case "open":
			v.OpenErr = &ibverbs.Error{Op: "ibv_open_device", On: name, Errno: m.errno(value).(syscall.Errno)}
		case "register":
			v.RegisterErr = &ibverbs.Error{Op: "ibv_reg_mr", On: name, Errno: m.errno(value).(syscall.Errno)}
		case "cq":
			v.CQErr = &ibverbs.Error{Op: "ibv_create_cq", On: name, Errno: m.errno(value).(syscall.Errno)}
		case "maxqp":
			n, err := strconv.Atoi(value)
			m.check(err, s)
			v.Attr.MaxQP = n
		case "maxmr":
			n, err := strconv.ParseUint(value, 10, 64)
			m.check(err, s)
			v.Attr.MaxMRSize = n
		case "absent":
			delete(m.host.Verbs.Devices, name)
			return
		default:
			m.tb.Fatalf("@verbs %s", s)
		}
	}
	m.host.Verbs.Devices[name] = v
}

// device adds a device to a machine.
func device(name, driver string, more ...string) string {
	lines := []string{"@verbs " + name + " mtu=4096",
		"sys/class/infiniband/" + name + "/node_type 1: CA",
		"sys/class/infiniband/" + name + "/ports/1/state 4: ACTIVE",
		"sys/class/infiniband/" + name + "/ports/1/link_layer Ethernet",
		"sys/class/infiniband_verbs/uv-" + name + "/ibdev " + name,
		"sys/class/infiniband_verbs/uv-" + name + "/abi_version 1",
		"dev/infiniband/uv-" + name + " !device 0666"}
	if driver != "" {
		lines = append(lines, "sys/class/infiniband/"+name+"/device/driver -> ../../bus/pci/drivers/"+driver)
	}
	return strings.Join(append(lines, more...), "\n")
}

var errNetlink = errors.New("netlink: operation not permitted")
