package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma/local"
)

// PeerConfig says which node to try, and how.
type PeerConfig struct {
	Addr     string        // HOST:PORT, or unix:PATH
	For      time.Duration // how long to read over each transport; 0: 1 s
	Device   string        // RDMA device, "" the choice
	GIDIndex int           // -1 the choice
	Logger   *slog.Logger  // of the libraries; nil: none
	// Credentials are what the node is shown. nil: nothing.
	Credentials wire.Credentials
}

// Peer is what was found out about a node. Its JSON keys are an interface.
type Peer struct {
	Addr     string    `json:"addr"`
	SameHost bool      `json:"same_host"`
	Arena    uint64    `json:"arena_bytes"`
	Measured []Measure `json:"measured"`

	findings []Finding
}

const (
	peerTimeout = 5 * time.Second
	// headerBytes is the arena's header, which does not change while a node runs:
	// read over every transport, it is the same.
	headerBytes = 4096
)

// trial is one run of TryPeer.
type trial struct {
	PeerConfig
	peer   *Peer
	client *wire.Client
	header []byte // as tcp has it; nil when it could not be read
}

// TryPeer connects to a node, and reads its memory over each transport: tcp, shm
// if it is on this host, rdma. It returns within some seconds and twice For, or when
// ctx ends.
func TryPeer(ctx context.Context, c PeerConfig) Peer {
	if c.For <= 0 {
		c.For = time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	t := trial{PeerConfig: c, peer: &Peer{Addr: c.Addr, Measured: []Measure{}}}
	if t.connect(ctx) {
		defer t.client.Close()
		t.tryTCP()
		t.tryShm(ctx)
		t.tryRDMA(ctx)
		t.compare()
	}
	return *t.peer
}

// With adds what was found out about a peer to a report.
func (r Report) With(p Peer) Report {
	all := NewReport(append(append([]Finding{}, r.Findings...), p.findings...))
	all.RDMA, all.Peer = r.RDMA, &p
	return all
}

func (t *trial) say(check string, v Verdict, found string, fix ...string) *Finding {
	t.peer.findings = append(t.peer.findings, Finding{Check: check, On: t.Addr, Verdict: v, Found: found, Fix: fix})
	return &t.peer.findings[len(t.peer.findings)-1]
}

// connect exchanges Hellos.
func (t *trial) connect(ctx context.Context) bool {
	begin := time.Now()
	client, err := wire.Dial(ctx, t.Addr, wire.Options{Name: "rmatail-doctor", Timeout: peerTimeout, Credentials: t.Credentials, Logger: t.Logger})
	if err != nil {
		t.say("handshake", Fail, err.Error(), dialFix(t.Addr, err)...)
		return false
	}
	t.client = client
	h := client.Hello()
	t.peer.Arena, t.peer.SameHost = h.ArenaSize, h.BootID != "" && h.BootID == bootID()
	var serves []string
	if h.Features&wire.FeatureDurable != 0 {
		serves = append(serves, "a durable store")
	}
	if h.ShmPath != "" {
		serves = append(serves, "shared memory")
	}
	if h.Features&wire.FeatureRDMA != 0 {
		serves = append(serves, "RDMA")
	}
	if len(serves) == 0 {
		serves = append(serves, "TCP alone")
	}
	t.say("handshake", OK, fmt.Sprintf("protocol %d in %v; arena of %s; serves %s", h.Version, time.Since(begin).Round(10*time.Microsecond), mib(h.ArenaSize), list(serves)))
	return true
}

// bootID names the kernel that runs here.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// dialFix is what to do when a node cannot be connected to.
func dialFix(addr string, err error) []string {
	var dns *net.DNSError
	host, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return []string{"rmatail serve --listen " + addr + "   # on that host: nothing listens there", "ss -ltn sport = :" + port + "   # on that host"}
	case errors.As(err, &dns):
		return []string{"getent hosts " + host}
	case errors.Is(err, wire.ErrVersion):
		return []string{"rmatail version   # on both hosts: take the same"}
	case errors.Is(err, wire.ErrHeaderCRC), errors.Is(err, wire.ErrMalformed):
		return []string{"curl -s http://" + addr + "/healthz   # is it the node's --http address?"}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return []string{"ip route get " + host, "ping -c 3 " + host, "nft list ruleset   # on that host: does its firewall let TCP port " + port + " pass?"}
	}
	return []string{"rmatail stat --server " + addr}
}

// measured is a transport that was connected: its header is compared with that of
// tcp, and it is measured.
func (t *trial) measured(check string, p way, about string) (Measure, bool) {
	header, err := p.read(0, headerBytes)
	switch {
	case err != nil:
		t.say(check, Fail, fmt.Sprintf("connected, but the first read failed: %v", err), firstReadFix(check)...)
		return Measure{}, false
	case t.header == nil:
		t.header = header
	case !bytes.Equal(header, t.header):
		t.say(check, Fail, "reads other bytes than TCP does: it is connected to another node's memory", "rmatail stat --server "+t.Addr)
		return Measure{}, false
	}
	m, err := p.measure(t.For)
	if err != nil {
		t.say(check, Fail, fmt.Sprintf("connected, but reading stopped after %d reads: %v", m.Reads+m.Batched, err), firstReadFix(check)...)
		return m, false
	}
	t.peer.Measured = append(t.peer.Measured, m)
	t.say(check, OK, about+m.String())
	return m, true
}

// firstReadFix is where to look when a connection carries no reads.
func firstReadFix(check string) []string {
	if check != "peer-rdma" {
		return nil
	}
	return []string{"nft list ruleset   # on both hosts: UDP port 4791", "rmatail doctor   # on the other host", "rmatail trace -i NETDEV   # soft-RoCE: which packets leave, which come?"}
}

func (t *trial) tryTCP() {
	conn := tcp.New(t.client, tcp.Options{BufferBytes: 2 * atOnce * chunk})
	defer conn.Close()
	t.measured("peer-tcp", way{"tcp", t.peer.Arena, func(n int) (batch, error) { return conn.NewBatch(n) }}, "")
}

func (t *trial) tryShm(ctx context.Context) {
	h := t.client.Hello()
	switch {
	case !t.peer.SameHost:
		t.say("peer-shm", OK, "another host: no shared memory with it")
		return
	case h.ShmPath == "":
		t.say("peer-shm", Warn, "the node is on this host, but offers no shared memory"+t.reason("socket_reason"), "rmatail serve --socket /run/rmatail/arena.sock ...")
		return
	}
	conn, err := local.Dialer{Ticket: []byte(h.Ticket)}.Dial(ctx, h.ShmPath, h.Epoch)
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.say("peer-shm", Warn, fmt.Sprintf("the node is on this host, but user %d may not open its socket: %v", os.Geteuid(), err), "chgrp GROUP "+h.ShmPath+"   # a group of this user; or rmatail serve --socket PATH in a directory that both may enter")
	case errors.Is(err, fs.ErrNotExist):
		t.say("peer-shm", Warn, fmt.Sprintf("the node is on this host, but its socket is not in this file system: %v", err), "docker run -v "+h.ShmPath+":"+h.ShmPath+" ...   # in containers, mount its directory into both")
	case err != nil:
		t.say("peer-shm", Warn, fmt.Sprintf("the node is on this host, but its memory cannot be mapped: %v", err), "ls -l "+h.ShmPath)
	default:
		defer conn.Close()
		t.measured("peer-shm", way{"shm", t.peer.Arena, func(n int) (batch, error) { return conn.NewBatch(n) }}, "")
	}
}

// reason is what the node says about why it does not offer something.
func (t *trial) reason(key string) string {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	text, err := t.client.Call(ctx, wire.OpNodeStat, nil, nil)
	if err != nil {
		return ""
	}
	var stat map[string]json.RawMessage
	var why string
	if json.Unmarshal(text, &stat) != nil || json.Unmarshal(stat[key], &why) != nil || why == "" {
		return ""
	}
	return ": " + why
}

// remote is the address of the other end.
func (t *trial) remote() (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(t.client.RemoteAddr().String())
	return ap.Addr().Unmap(), err == nil
}
