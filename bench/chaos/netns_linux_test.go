package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// veth is a pair of virtual network interfaces between this host and the namespace
// of a node: a network of the kernel's, with everything that TCP does on it.
type veth struct {
	t    testing.TB
	name string // of the end that is here
	at   string // the node's address on it
	// netem says whether the kernel can delay and lose what passes.
	netem bool
}

func (v *veth) addr() string { return v.at }

func (v *veth) set(l link) {
	state := "up"
	if l.cut {
		state = "down"
	}
	run(v.t, "ip link set dev %s %s", v.name, state)
	if !v.netem || l.cut {
		return
	}
	exec.Command("tc", "qdisc", "del", "dev", v.name, "root").Run() // there may be none
	if l == (link{}) {
		return
	}
	shape := fmt.Sprintf("tc qdisc add dev %s root netem delay %dus loss %f%%", v.name, l.delay.Microseconds(), 100*l.loss)
	if l.bytesPerSecond > 0 {
		shape += fmt.Sprintf(" rate %dbit", 8*l.bytesPerSecond)
	}
	run(v.t, "%s", shape)
}

// reset is not what a network of the kernel's does.
func (v *veth) reset() { panic("a veth cannot reset connections") }

func run(t testing.TB, format string, args ...any) {
	t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

const portInNamespace = 7471

// inNamespace gives a node a namespace with one network to the writers and one to
// the readers.
func (s *site) inNamespace(n *node, i int) {
	t := s.t
	n.netns = fmt.Sprintf("rmc%d-%s", os.Getpid(), n.Name)
	n.Listen = fmt.Sprintf("0.0.0.0:%d", portInNamespace)
	run(t, "ip netns add %s", n.netns)
	t.Cleanup(func() {
		n.kill()
		run(t, "ip netns del %s", n.netns)
	})
	run(t, "ip -n %s link set lo up", n.netns)
	pair := func(kind string, third int) network {
		v := &veth{t: t, name: fmt.Sprintf("rm%s%s%d", kind, n.Name, os.Getpid()%100000), at: fmt.Sprintf("10.231.%d.2:%d", third, portInNamespace)}
		run(t, "ip link add %s type veth peer name %s netns %s", v.name, "eth"+kind, n.netns)
		run(t, "ip addr add 10.231.%d.1/24 dev %s", third, v.name)
		run(t, "ip -n %s addr add 10.231.%d.2/24 dev eth%s", n.netns, third, kind)
		run(t, "ip -n %s link set eth%s up", n.netns, kind)
		v.set(link{})
		v.netem = exec.Command("tc", "qdisc", "add", "dev", v.name, "root", "netem", "delay", "1us").Run() == nil
		return v
	}
	s.write, s.read = append(s.write, pair("w", 2*i+10)), append(s.read, pair("r", 2*i+11))
}

// TestRealChaosNamespaces: nodes in network namespaces of their own. One is cut off
// from the writers, one from the readers, one from both and killed meanwhile; where
// the kernel has netem, one is slow, too.
func TestRealChaosNamespaces(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s := newSite(t, siteConfig{full: 4, netns: true})
	s.pass(settle)
	cut, well := link{cut: true}, link{}
	held := s.holders(s.feeds[0])
	s.write[held[0]].set(cut)
	s.fault("veth cut from writers")
	s.pass(2 * time.Second)
	s.write[held[0]].set(well)
	s.read[held[1]].set(cut)
	s.fault("veth cut from readers")
	s.pass(2 * time.Second)
	s.read[held[1]].set(well)
	s.write[held[2]].set(cut)
	s.read[held[2]].set(cut)
	s.nodes[held[2]].kill()
	s.fault("node killed behind a cut veth")
	s.pass(time.Second)
	s.nodes[held[2]].start()
	s.write[held[2]].set(well)
	s.read[held[2]].set(well)
	if s.read[0].(*veth).netem {
		slow := link{delay: 80 * time.Millisecond, bytesPerSecond: 1 << 20, loss: 0.02}
		s.write[held[0]].set(slow)
		s.read[held[0]].set(slow)
		s.fault("netem delay, loss and rate")
		s.pass(2 * time.Second)
		s.write[held[0]].set(well)
		s.read[held[0]].set(well)
	} else {
		t.Log("report: this kernel has no netem: delay, loss and bandwidth are the proxies' (TestRealChaosSlowNode)")
	}
	t.Logf("report: network namespaces: the last byte of the store came %v after the last fault", s.back(time.Now(), backLimit))
	s.appendsSucceeded()
	s.finish("nodes in network namespaces")
}
