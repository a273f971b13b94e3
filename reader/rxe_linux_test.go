package reader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/roce"
	"github.com/rmatail/rmatail/reader"
)

// rxe is the topology of the rxe ring: two soft-RoCE devices on a veth pair.
type rxe struct {
	dev, addr, net [2]string
}

func rxeRing(t *testing.T) rxe {
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("RMATAIL_RXE is not set: no soft-RoCE devices here (scripts/test --ring rxe boots a guest that has them)")
	}
	var x rxe
	for i := range 2 {
		for _, v := range []struct {
			to   *string
			name string
		}{{&x.dev[i], "DEV"}, {&x.addr[i], "ADDR"}, {&x.net[i], "NET"}} {
			key := fmt.Sprintf("RMATAIL_RXE_%s%d", v.name, i)
			if *v.to = os.Getenv(key); *v.to == "" {
				t.Fatalf("RMATAIL_RXE is set but %s is not", key)
			}
		}
	}
	return x
}

// node is a node on the first device, without shared memory.
func (x rxe) node() nodeConfig {
	return nodeConfig{Listen: x.addr[0] + ":0", Socket: server.SocketNone, Device: x.dev[0], RDMA: server.RDMARequire, Arena: largeArena}
}

// reader is a reader on the second device.
func (x rxe) reader(t reader.Transport) reader.Config {
	// An emulated processor under the race detector is slower than the default of
	// the read timeout allows for.
	c := reader.Config{Transport: t, RDMA: rdma.DefaultConfig(), ReadTimeout: 500 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	c.RDMA.Device = x.dev[1]
	return c
}

// ip runs an ip command; what it changes is put back by the command undo when
// the test ends.
func (x rxe) ip(t *testing.T, command string, undo string) {
	t.Helper()
	run := func(args string) {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Errorf("ip %s: %v: %s", args, err, out)
		}
	}
	run(command)
	if undo != "" {
		t.Cleanup(func() { run(undo) })
	}
}

func TestRxeBytes(t *testing.T) {
	x := rxeRing(t)
	everyByte(t, x.node(), []reader.Config{x.reader(reader.RDMA), x.reader(reader.Auto)}, 1<<20)
}

// TestRxeStoppedNode: with the serving process stopped, a reader on rdma reads
// all that is published.
func TestRxeStoppedNode(t *testing.T) {
	x := rxeRing(t)
	n := startNode(t, x.node())
	w := &writer{t: t, shard: "stopped/0"}
	w.append(n, 100)
	cfg := x.reader(reader.RDMA)
	cfg.Server = n.Listen
	_, r := w.open(cfg, reader.Earliest())
	w.read(r, 20*time.Second)
	w.append(n, 1_000_000, 1_000_000)
	n.signal(syscall.SIGSTOP)
	n.stopped()
	if by := w.read(r, 30*time.Second); by["rdma"] != 2_000_000 {
		t.Fatalf("rdma reader of a stopped node got %v", by)
	}
	n.signal(syscall.SIGCONT)
}

// rawRDMA connects below the reader, for tests that count single READs.
func rawRDMA(t *testing.T, x rxe, n *node) (*wire.Client, *rdma.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := wire.Dial(ctx, n.Listen, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	d, err := rdma.Prepare(x.reader(reader.RDMA).RDMA, netip.MustParseAddrPort(c.RemoteAddr().String()).Addr())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Call(ctx, wire.OpRDMAConnect, d.Offer(), nil)
	if err != nil {
		t.Fatal(errors.Join(err, d.Close()))
	}
	m, err := d.Finish(ctx, answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return c, m
}

// readChunks reads count chunks of 4,096 bytes in batches of 64.
func readChunks(t *testing.T, m *rdma.Conn, count int) {
	t.Helper()
	b, err := m.NewBatch(64 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for done := 0; done < count; done += 64 {
		for i := range min(64, count-done) {
			b.Add(uint64(i)*4096, 4096)
		}
		if err := errors.Join(b.Post(time.Now().Add(10*time.Second)), b.Wait()); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
}

// TestRxeServerIdle: over 100,000 READs the serving process uses no more
// processor time than it does in the same time without them.
func TestRxeServerIdle(t *testing.T) {
	x := rxeRing(t)
	n := startNode(t, x.node())
	_, m := rawRDMA(t, x, n)
	noBusier(t, n, 0.04, func() int {
		readChunks(t, m, 6400)
		return 6400
	})
}

// TestRxePackets captures what a Reader and single READs put on the wire: READ
// requests and responses, nothing else, and one response packet for each chunk
// of 4,096 bytes.
func TestRxePackets(t *testing.T) {
	x := rxeRing(t)
	n := startNode(t, x.node())
	w := &writer{t: t, shard: "packets/0"}
	w.append(n, 100, 1<<20)
	cfg := x.reader(reader.RDMA)
	cfg.Server = n.Listen
	reading := calm(t, func() *roce.Summary {
		stop := startCapture(t, x.net[1])
		_, r := w.open(cfg, reader.Earliest())
		w.read(r, 30*time.Second)
		r.Close()
		return stop()
	})
	if err := reading.OneSided(); err != nil {
		t.Fatalf("what a Reader does is not one-sided: %v\n%v", err, reading)
	}
	_, m := rawRDMA(t, x, n)
	const chunks = 640
	single := calm(t, func() *roce.Summary {
		stop := startCapture(t, x.net[1])
		readChunks(t, m, chunks)
		return stop()
	})
	if err := single.OneSided(); err != nil || single.Total().ReadResponses() != chunks {
		t.Fatalf("%d response packets for %d chunks, %v\n%v", single.Total().ReadResponses(), chunks, err, single)
	}
	t.Logf("report: a Reader of 1 MiB: %v\n%d single chunks: %v", reading, chunks, single)
}

// calm repeats a capture until it shows no packet sent twice: on a busy host the
// device's time-out passes now and then, and it asks again.
func calm(t *testing.T, captured func() *roce.Summary) *roce.Summary {
	t.Helper()
	for range 5 {
		s := captured()
		if total := s.Total(); total.Repeated == 0 && total.NAKs == 0 {
			return s
		}
		t.Logf("packets were repeated; once more: %v", s)
	}
	t.Fatal("packets were repeated in each of 5 captures: this host is too busy to count them")
	return nil
}

// TestRxeKilledNode: killed in the middle of a backlog, restarted at the same
// address, where every old handle is stale.
func TestRxeKilledNode(t *testing.T) {
	x := rxeRing(t)
	for _, transport := range []reader.Transport{reader.RDMA, reader.Auto} {
		t.Run(transport.String(), func(t *testing.T) {
			killed(t, startNode(t, x.node()), x.reader(transport), "rdma")
		})
	}
}

// disturbed runs a reader on rdma, disturbs it, and expects that it goes on
// over another resort within 2 s and is back on rdma within 10 s after it was
// mended.
func disturbed(t *testing.T, x rxe, disturb, mend func(n *node)) *reader.Cluster {
	t.Helper()
	n := startNode(t, x.node())
	w := &writer{t: t, shard: "disturbed/0"}
	w.append(n, 100)
	cfg := x.reader(reader.Auto)
	cfg.Server, cfg.Dir = n.Listen, n.Dir
	c, r := w.open(cfg, reader.Earliest())
	if by := w.read(r, 20*time.Second); by["rdma"] == 0 {
		t.Fatalf("before: %v, %+v", by, c.Stats())
	}
	w.append(n, 1<<20, 1<<20)
	if _, err := drain(t.Context(), r, 1<<20, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	disturb(n)
	start := time.Now()
	w.append(n, 1000)
	by := w.read(r, 20*time.Second)
	d := time.Since(start)
	t.Logf("report: went on after %v: %v", d.Round(time.Millisecond), by)
	if d > 2*time.Second {
		t.Fatalf("the reader went on after %v, want within 2 s", d)
	}
	mend(n)
	back(t, n, w, r, "rdma")
	return c
}

// TestRxeHandleRenewed replaces the memory region under the connection: the key
// that the reader holds is stale.
func TestRxeHandleRenewed(t *testing.T) {
	x := rxeRing(t)
	c := disturbed(t, x, func(n *node) { n.signal(syscall.SIGUSR1) }, func(*node) {})
	if s := c.Stats(); s.Failures["rdma"] == 0 || s.Connects["rdma"] < 2 {
		t.Fatalf("the stale key was never met: %+v", s)
	}
	if s := c.Stats(); s.QPErrors["rem_access_err"] == 0 || s.QPErrors["wr_flush_err"] != 0 {
		t.Errorf("lost connections by their root: %v", s.QPErrors)
	}
}

func TestRxeLinkDown(t *testing.T) {
	x := rxeRing(t)
	c := disturbed(t, x,
		func(*node) { x.ip(t, "link set "+x.net[1]+" down", "link set "+x.net[1]+" up") },
		func(*node) { x.ip(t, "link set "+x.net[1]+" up", "") })
	if s := c.Stats(); len(s.QPErrors) == 0 {
		t.Error("a link that went down cost no connection")
	} else {
		t.Logf("report: lost connections by their root: %v", s.QPErrors)
	}
}

// TestRxeGIDChanged takes the address away under the connection and gives it
// back: the GID comes back at another index.
func TestRxeGIDChanged(t *testing.T) {
	x := rxeRing(t)
	add := fmt.Sprintf("addr add %s/24 dev %s", x.addr[1], x.net[1])
	disturbed(t, x,
		func(*node) { x.ip(t, fmt.Sprintf("addr del %s/24 dev %s", x.addr[1], x.net[1]), "") },
		func(*node) { x.ip(t, add, "") })
}

// TestRxePacketLoss: some of the packets that carry READs are lost, and the reader goes
// on with every byte; then all of them are, and it goes on over tcp, whose packets take
// another way, until the network is well again.
func TestRxePacketLoss(t *testing.T) {
	x := rxeRing(t)
	tc := func(args string) error {
		out, err := exec.Command("tc", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("tc %s: %w: %s", args, err, out)
		}
		return nil
	}
	lose := func(percent int) { // of requests and of answers
		t.Helper()
		for _, net := range x.net {
			if err := tc(fmt.Sprintf("qdisc replace dev %s root netem loss %d%%", net, percent)); err != nil {
				t.Skipf("no netem in this kernel: %v", err)
			}
		}
	}
	heal := func() {
		for _, net := range x.net {
			if err := tc("qdisc del dev " + net + " root"); err != nil {
				t.Error(err)
			}
		}
	}
	lose(0)
	healed := false
	t.Cleanup(func() {
		if !healed {
			heal()
		}
	})
	n := startNode(t, x.node())
	w := &writer{t: t, shard: "loss/0"}
	w.append(n, 100)
	cfg := x.reader(reader.Auto)
	cfg.Server, cfg.Dir = n.Listen, n.Dir
	c, r := w.open(cfg, reader.Earliest())
	w.read(r, 20*time.Second)
	for _, percent := range []int{1, 5, 20} {
		lose(percent)
		start, by := time.Now(), map[string]int{}
		for range 8 {
			w.append(n, 64<<10)
			for source, n := range w.read(r, 30*time.Second) {
				by[source] += n
			}
		}
		t.Logf("report: %d %% of the packets lost: 512 KiB in %v, by source %v, connections lost by their root %v", percent, time.Since(start).Round(time.Millisecond), by, c.Stats().QPErrors)
	}
	lose(0)
	back(t, n, w, r, "rdma")
	lose(100)
	start := time.Now()
	w.append(n, 1000)
	by := w.read(r, 20*time.Second)
	d := time.Since(start)
	t.Logf("report: all packets lost: went on after %v, %v", d.Round(time.Millisecond), by)
	if d > 2*time.Second || by["rdma"] != 0 {
		t.Errorf("went on after %v by %v, want within 2 s and not over rdma", d, by)
	}
	eventually(t, 20*time.Second, "the connection to be given up, and that to be said", func() bool {
		s := c.Stats()
		return s.QPErrors["retry_exc_err"] > 0 && s.Transport == "tcp" && strings.Contains(s.Why, "rdma: ")
	})
	healed = true
	heal()
	back(t, n, w, r, "rdma")
}

// TestRxeKilledConsumers: those that die hold queue pairs of the node.
func TestRxeKilledConsumers(t *testing.T) {
	x := rxeRing(t)
	killedConsumers(t, startNode(t, x.node()), x.reader(reader.RDMA))
}

// TestRxeSmallMTU: path MTU 1024 on one end and 4096 on the other.
func TestRxeSmallMTU(t *testing.T) {
	x := rxeRing(t)
	x.ip(t, "link set "+x.net[1]+" mtu 1500", "link set "+x.net[1]+" mtu 9000")
	n := startNode(t, x.node())
	w := &writer{t: t, shard: "mtu/0"}
	w.append(n, 100, 1<<20)
	cfg := x.reader(reader.RDMA)
	cfg.Server = n.Listen
	_, r := w.open(cfg, reader.Earliest())
	if by := w.read(r, 20*time.Second); by["rdma"] != int(w.pos) {
		t.Fatalf("got %v of %d", by, w.pos)
	}
}
