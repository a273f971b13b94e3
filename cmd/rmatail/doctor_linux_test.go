package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/doctor"
)

// examined runs rmatail doctor, and holds its exit code to its verdict.
func examined(t *testing.T, args ...string) doctor.Report {
	t.Helper()
	r := rmatail(t, nil, append([]string{"doctor", "--json"}, args...)...)
	var report doctor.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\n%s%s", err, r.stdout, r.stderr)
	}
	if want := map[doctor.Verdict]int{doctor.OK: 0, doctor.Warn: 1, doctor.Fail: 2}[report.Verdict]; r.code != want || r.stderr != "" {
		t.Errorf("exit code %d, want %d for %v\n%s", r.code, want, report.Verdict, r.stderr)
	}
	return report
}

// firstFinding returns the first finding of a check, on something that contains on.
func firstFinding(t *testing.T, r doctor.Report, check, on string) doctor.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == check && strings.Contains(f.On, on) })
	if i < 0 {
		b, _ := json.MarshalIndent(r, "", " ")
		t.Fatalf("no finding %s on %s in\n%s", check, on, b)
	}
	return r.Findings[i]
}

func wantFinding(t *testing.T, r doctor.Report, check, on string, v doctor.Verdict, found string) {
	t.Helper()
	if f := firstFinding(t, r, check, on); f.Verdict != v || !strings.Contains(f.Found, found) {
		t.Errorf("%s %s: %v: %s; want %v: %s", f.Check, f.On, f.Verdict, f.Found, v, found)
	}
}

// Whatever this host has, the doctor comes to an end and says so.
func TestRealDoctorHere(t *testing.T) {
	r := examined(t)
	firstFinding(t, r, "kernel", "")
	firstFinding(t, r, "memlock", "")
	firstFinding(t, r, "clock", "")
	if names, err := os.ReadDir("/sys/class/infiniband"); err != nil || len(names) == 0 {
		wantFinding(t, r, "devices", "", doctor.Warn, "no RDMA device")
		if r.RDMA || r.Count(doctor.Fail) > 0 {
			t.Errorf("a host without RDMA fails: %+v", r)
		}
	}
	text := rmatail(t, nil, "doctor")
	if !strings.Contains(text.stdout, " ok, ") || !strings.Contains(text.stdout, "RDMA can") {
		t.Errorf("%s", text.stdout)
	}
}

func TestRealDoctorPeer(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir(), "--rdma", "off")
	must(t, strings.NewReader(numbered(20_000)), "append", "--server", n.addr, "logs/0")
	r := examined(t, "--peer", n.addr, "--for", "200ms")
	wantFinding(t, r, "handshake", n.addr, doctor.OK, "serves a durable store, shared memory")
	wantFinding(t, r, "peer-tcp", n.addr, doctor.OK, "4 KiB in ")
	wantFinding(t, r, "peer-shm", n.addr, doctor.OK, "4 KiB in ")
	wantFinding(t, r, "peer-rdma", n.addr, doctor.Warn, "the node exports no RDMA")
	if r.Peer == nil || !r.Peer.SameHost || len(r.Peer.Measured) != 2 || r.Peer.Measured[0].Reads == 0 || r.Peer.Measured[1].Rate <= 0 {
		t.Errorf("%+v", r.Peer)
	}
	// A node without shared memory on the same host is worth a word.
	bare := startNode(t, "--rdma", "off", "--socket", "none")
	r = examined(t, "--peer", bare.addr, "--for", "100ms")
	wantFinding(t, r, "peer-shm", bare.addr, doctor.Warn, "offers no shared memory")
}

func TestRealDoctorPeerThatIsNone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	r := examined(t, "--peer", closed)
	wantFinding(t, r, "handshake", closed, doctor.Fail, "connection refused")
	if f := firstFinding(t, r, "handshake", closed); !strings.Contains(f.Fix[0], "rmatail serve --listen "+closed) {
		t.Errorf("%v", f.Fix)
	}

	// A server that says nothing, and one that says something else.
	for text, found := range map[string]string{"": "timeout", "HTTP/1.1 400 Bad Request\r\nServer: another\r\n\r\n": "checksum"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				defer c.Close()
			}
		}()
		r := examined(t, "--peer", l.Addr().String())
		wantFinding(t, r, "handshake", "", doctor.Fail, found)
		l.Close()
	}
}

func TestPeerWithoutAPort(t *testing.T) {
	for addr, want := range map[string]string{"node1": "node1:7440", "node1:1": "node1:1", "::1": "[::1]:7440", "[::1]": "[::1]:7440", "[::1]:5": "[::1]:5", "unix:/x": "unix:/x"} {
		if got := withPort(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// ip changes the topology, and puts it back at the end.
func ip(t *testing.T, change, undo string) {
	t.Helper()
	run := func(args string) {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Errorf("ip %s: %v: %s", args, err, out)
		}
	}
	run(change)
	t.Cleanup(func() { run(undo) })
}

func TestRxeDoctorPeer(t *testing.T) {
	d := pairOfDevices(t)
	n := startNode(t, "--listen", d.listen, "--dir", t.TempDir(), "--rdma", "require")
	must(t, strings.NewReader(numbered(20_000)), "append", "--server", n.addr, "logs/0")
	r := examined(t, "--peer", n.addr, "--device", d.device, "--for", "1s")
	if !r.RDMA || r.Count(doctor.Fail) > 0 {
		b, _ := json.MarshalIndent(r, "", " ")
		t.Errorf("%s", b)
	}
	wantFinding(t, r, "gid", d.device, doctor.OK, "would use index")
	wantFinding(t, r, "mtu", d.device, doctor.OK, "active MTU 4096")
	wantFinding(t, r, "register", d.device, doctor.OK, "registered and released")
	wantFinding(t, r, "peer-gid", n.addr, doctor.OK, d.device)
	wantFinding(t, r, "peer-rtr", n.addr, doctor.OK, "both ends are ready to receive")
	wantFinding(t, r, "peer-mtu", n.addr, doctor.OK, "path MTU 4096")
	if f := firstFinding(t, r, "peer-rdma", n.addr); f.Verdict > doctor.Warn || !strings.Contains(f.Found, "4 KiB in ") || !strings.Contains(f.Found, "soft-RoCE") && f.Verdict == doctor.OK {
		t.Errorf("%+v", f)
	}
	if len(r.Peer.Measured) != 3 || !r.Peer.SameHost {
		t.Errorf("%+v", r.Peer)
	}
	for _, m := range r.Peer.Measured {
		t.Logf("report: doctor over %v", m.Transport+": "+m.String())
	}
}

// Each thing that is broken shows, and mends by itself when it is put back.
func TestRxeDoctorFindsWhatIsBroken(t *testing.T) {
	d := pairOfDevices(t)
	netdev, addr := os.Getenv("RMATAIL_RXE_NET0"), os.Getenv("RMATAIL_RXE_ADDR0")

	t.Run("a small MTU", func(t *testing.T) {
		ip(t, "link set dev "+netdev+" mtu 1500", "link set dev "+netdev+" mtu 9000")
		wantFinding(t, examined(t, "--device", d.device), "mtu", d.device, doctor.Warn, "active MTU 1024, "+netdev+" has 1500: a chunk of 4 KiB takes 4 packets")
	})
	t.Run("a small MTU on the way to a peer", func(t *testing.T) {
		n := startNode(t, "--listen", d.listen, "--rdma", "require")
		ip(t, "link set dev "+netdev+" mtu 1500", "link set dev "+netdev+" mtu 9000")
		r := examined(t, "--peer", n.addr, "--device", d.device, "--for", "200ms")
		wantFinding(t, r, "peer-mtu", n.addr, doctor.Warn, "path MTU 1024, the smaller of both ends': a chunk of 4 KiB takes 4 packets")
		if f := firstFinding(t, r, "peer-rdma", n.addr); f.Verdict > doctor.Warn {
			t.Errorf("%+v", f)
		}
	})
	t.Run("all packets of a peer are lost", func(t *testing.T) {
		n := startNode(t, "--listen", d.listen, "--rdma", "require")
		away := os.Getenv("RMATAIL_RXE_NET1")
		if out, err := exec.Command("tc", "qdisc", "add", "dev", away, "root", "netem", "loss", "100%").CombinedOutput(); err != nil {
			t.Skipf("no netem in this kernel: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("tc", "qdisc", "del", "dev", away, "root").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		r := examined(t, "--peer", n.addr, "--device", d.device, "--for", "200ms")
		wantFinding(t, r, "peer-tcp", n.addr, doctor.OK, "4 KiB in ")
		// Where the address still resolves the queue pairs get ready, and no answer comes.
		i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
			return f.Verdict == doctor.Fail && (f.Check == "peer-rtr" && strings.Contains(strings.Join(f.Fix, " "), "ping -c 3") ||
				f.Check == "peer-rdma" && strings.Contains(f.Found, "no packet comes back") && strings.Contains(strings.Join(f.Fix, " "), "UDP port 4791"))
		})
		if i < 0 {
			b, _ := json.MarshalIndent(r, "", " ")
			t.Errorf("%s", b)
		}
	})
	t.Run("no address", func(t *testing.T) {
		ip(t, "addr del "+addr+"/24 dev "+netdev, "addr add "+addr+"/24 dev "+netdev)
		eventually(t, "the GID to go", func() bool {
			return strings.Contains(firstFinding(t, examined(t, "--device", d.device), "gid", d.device).Found, "link-local")
		})
	})
	t.Run("an index that is empty", func(t *testing.T) {
		wantFinding(t, examined(t, "--device", d.device, "--gid-index", "200"), "gid", d.device, doctor.Fail, "index 200, which was asked for, is empty")
	})
	t.Run("the link is down", func(t *testing.T) {
		ip(t, "link set dev "+netdev+" down", "link set dev "+netdev+" up")
		eventually(t, "the port to be down", func() bool {
			f := firstFinding(t, examined(t, "--device", d.device), "port", d.device)
			return f.Verdict == doctor.Fail && slices.Contains(f.Fix, "ip link set dev "+netdev+" up")
		})
	})
	t.Run("another network namespace", func(t *testing.T) {
		c := command(t, "doctor", "--json", "--device", d.device)
		wrapped := exec.Command("unshare", append([]string{"-n", c.Path}, c.Args[1:]...)...)
		wrapped.Env = c.Env
		out, err := wrapped.Output()
		var r doctor.Report
		if jerr := json.Unmarshal(out, &r); jerr != nil {
			t.Fatalf("%v, %v: %s", err, jerr, out)
		}
		wantFinding(t, r, "netns", d.device, doctor.Fail, "is not in this network namespace: queue pairs fail with ENODEV")
	})
	t.Run("locked memory of another user", func(t *testing.T) {
		c := command(t, "doctor", "--json", "--device", d.device)
		wrapped := exec.Command("prlimit", append([]string{"--memlock=65536:65536", "setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", c.Path}, c.Args[1:]...)...)
		wrapped.Env = c.Env
		out, err := wrapped.Output()
		var r doctor.Report
		if jerr := json.Unmarshal(out, &r); jerr != nil {
			t.Fatalf("%v, %v: %s", err, jerr, out)
		}
		wantFinding(t, r, "memlock", "", doctor.Fail, "limit 64 KiB, below the 64 MiB")
		wantFinding(t, r, "register", d.device, doctor.Fail, "RLIMIT_MEMLOCK is 64 KiB")
	})
}
