package rdma

import (
	_ "embed"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

//go:embed testdata/sysfs-rxe-vlan.txt
var sysfsRxeVLAN string

// sysTree is a sysfs of a test: files, and files that cannot be read.
type sysTree struct {
	fstest.MapFS
	broken map[string]error
}

// ReadFile fails for broken files as the kernel does: at the read.
func (s sysTree) ReadFile(name string) ([]byte, error) {
	if err := s.broken[name]; err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return s.MapFS.ReadFile(name)
}

// parseSysfs reads lines of path and content.
func parseSysfs(tb testing.TB, text string) sysTree {
	tb.Helper()
	tree := sysTree{fstest.MapFS{}, map[string]error{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, content, ok := strings.Cut(line, " ")
		if !ok {
			tb.Fatalf("fixture line %q", line)
		}
		tree.set(name, content)
	}
	return tree
}

func (s sysTree) set(name, content string) {
	delete(s.broken, name)
	s.MapFS[name] = &fstest.MapFile{Data: []byte(content + "\n")}
	for text, err := range map[string]error{"!EINVAL": syscall.EINVAL, "!ENODATA": syscall.ENODATA, "!EIO": syscall.EIO, "!ENODEV": syscall.ENODEV} {
		if content == text {
			s.broken[name] = err
		}
	}
}

// device adds a device. Its attributes are "key=value"; a GID is
// "port index type netdev address", "-" for nothing.
func (s sysTree) device(name string, attrs, gids []string) {
	dir := "class/infiniband/" + name
	s.set(dir+"/node_type", "1: CA")
	for _, a := range attrs {
		key, value, _ := strings.Cut(a, "=")
		s.set(dir+"/"+key, value)
	}
	port := func(n string) string {
		p := dir + "/ports/" + n
		for key, value := range map[string]string{"state": "4: ACTIVE", "link_layer": "Ethernet", "lid": "0x0"} {
			if s.MapFS[p+"/"+key] == nil {
				s.set(p+"/"+key, value)
			}
		}
		for i := range 16 {
			if name := strconv.Itoa(i); s.MapFS[p+"/gids/"+name] == nil {
				s.set(p+"/gids/"+name, emptySlot)
				s.set(p+"/gid_attrs/types/"+name, "!EINVAL")
				s.set(p+"/gid_attrs/ndevs/"+name, "!EINVAL")
			}
		}
		return p
	}
	port("1")
	for _, text := range gids {
		var n, index, kind, netdev, addr string
		if _, err := fmt.Sscan(text, &n, &index, &kind, &netdev, &addr); err != nil {
			panic(text)
		}
		p := port(n)
		s.set(p+"/gids/"+index, addr)
		s.set(p+"/gid_attrs/types/"+index, map[string]string{"v1": "IB/RoCE v1", "v2": "RoCE v2", "ib": "IB/RoCE v1", "-": "!EINVAL"}[kind])
		if netdev == "-" {
			netdev = "!EINVAL"
		}
		s.set(p+"/gid_attrs/ndevs/"+index, netdev)
	}
}

// netdev is one of a test's host. A MAC of 20 bytes is IPoIB's.
func netdev(name string, index int, mac string, prefixes ...string) Netdev {
	d := Netdev{Name: name, Index: index}
	if mac != "" {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			panic(err)
		}
		d.MAC = hw
	}
	for _, p := range prefixes {
		d.Prefixes = append(d.Prefixes, netip.MustParsePrefix(p))
	}
	return d
}

func vlanOf(parent string, id int, d Netdev) Netdev {
	d.VLAN, d.Parent = id, parent
	return d
}

var loopback = netdev("lo", 1, "", "127.0.0.1/8", "::1/128")

// rxeNetdevs are those of the guest that sysfsRxeVLAN was read in.
var rxeNetdevs = []Netdev{
	loopback,
	netdev("v1", 2, "7e:8b:6f:5f:99:20", "10.9.0.2/24", "fd00:9::2/64", "fe80::7c8b:6fff:fe5f:9920/64"),
	netdev("v0", 3, "ea:b3:88:12:76:09", "10.9.0.1/24", "fe80::e8b3:88ff:fe12:7609/64"),
	vlanOf("v0", 10, netdev("v0.10", 4, "ea:b3:88:12:76:09", "10.10.0.1/24", "fe80::e8b3:88ff:fe12:7609/64")),
	vlanOf("v1", 10, netdev("v1.10", 5, "7e:8b:6f:5f:99:20", "10.10.0.2/24", "fe80::7c8b:6fff:fe5f:9920/64")),
}

// host is a machine with a tree, netdevs and routes: "prefix netdev [gateway]",
// the first that holds the address counts. Own addresses are routed to lo.
func host(tree sysTree, netdevs []Netdev, routes ...string) Host {
	return Host{
		Sysfs:   tree,
		netdevs: func() ([]Netdev, error) { return netdevs, nil },
		route: func(peer netip.Addr) (Route, error) {
			for _, d := range netdevs {
				for _, p := range d.Prefixes {
					if p.Addr() == peer || d.Name == "lo" && p.Contains(peer) {
						return Route{Netdev: "lo", Source: peer, Local: true}, nil
					}
				}
			}
			for _, text := range routes {
				words := strings.Fields(text)
				if !netip.MustParsePrefix(words[0]).Contains(peer.WithZone("")) {
					continue
				}
				r := Route{Netdev: words[1]}
				if len(words) > 2 {
					r.Gateway = netip.MustParseAddr(words[2])
				}
				for _, d := range netdevs {
					for _, p := range d.Prefixes {
						if d.Name == r.Netdev && p.Addr().Is4() == peer.Is4() && !p.Addr().IsLinkLocalUnicast() && !r.Source.IsValid() {
							r.Source = p.Addr()
						}
					}
				}
				return r, nil
			}
			return Route{}, fmt.Errorf("%w to %v: network is unreachable", ErrNoRoute, peer)
		},
	}
}
