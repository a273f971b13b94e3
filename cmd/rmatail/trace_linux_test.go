package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/trace"
	"github.com/rmatail/rmatail/rdma"
)

func TestRealTraceUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "want a capture file, or --interface"},
		{[]string{"x.pcap", "-i", "lo"}, exitUsage, "want a capture file, or --interface"},
		{[]string{"no-such-file.pcap"}, exitError, "no such file"},
		{[]string{"-i", "no-such-netdev"}, exitError, "no-such-netdev"},
		{[]string{"-"}, exitError, "too short for its header"},
	} {
		r := rmatail(t, strings.NewReader("x"), append([]string{"trace"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("trace %v: exit code %d\n%s", c.args, r.code, r.stderr)
		}
	}
}

// A silent interface: the trace ends in time, says what may be wrong, and its
// file is a valid one that nobody else can read.
func TestRealTraceOfSilence(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	path := filepath.Join(t.TempDir(), "none.pcap")
	r := must(t, nil, "trace", "-i", "lo", "--for", "50ms", "-w", path)
	if !strings.Contains(r.stdout, "lo: 0 RoCE v2 packets") || !strings.Contains(r.stdout, "no RoCE v2 packet passed") {
		t.Errorf("%s", r.stdout)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	r = must(t, nil, "trace", "--json", path)
	var report trace.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Packets != 0 || report.Source != path {
		t.Errorf("%+v, %v", report, err)
	}
}

// tracer is a running trace of a netdev.
type tracer struct {
	t      *testing.T
	out    bytes.Buffer
	stderr *bytes.Buffer
	end    func() error
	signal func(os.Signal) error
}

// startTrace returns when the capture runs.
func startTrace(t *testing.T, args ...string) *tracer {
	t.Helper()
	c := command(t, append([]string{"trace", "--json"}, args...)...)
	tr := &tracer{t: t, stderr: &bytes.Buffer{}}
	c.Stdout = &tr.out
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(io.TeeReader(pipe, tr.stderr))
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "capturing") {
		t.Fatalf("trace says %q, %v", line, err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	tr.signal = c.Process.Signal
	tr.end = func() error {
		<-drained
		return c.Wait()
	}
	return tr
}

// report interrupts the trace.
func (tr *tracer) report() trace.Report {
	tr.t.Helper()
	if err := tr.signal(syscall.SIGINT); err != nil {
		tr.t.Fatal(err)
	}
	if err := tr.end(); err != nil {
		tr.t.Fatalf("%v\n%s", err, tr.stderr)
	}
	var r trace.Report
	if err := json.Unmarshal(tr.out.Bytes(), &r); err != nil {
		tr.t.Fatalf("%v: %s", err, tr.out.String())
	}
	return r
}

// rdmaPair makes a connection that reads a memory over the two devices.
func rdmaPair(t *testing.T, pages int) *rdma.Conn {
	t.Helper()
	return rdmaPairAfter(t, pages, func(*rdma.Export) error { return nil })
}

// rdmaPairAfter does something to the exporting end when it is connected.
func rdmaPairAfter(t *testing.T, pages int, change func(*rdma.Export) error) *rdma.Conn {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	side := func(n string) (rdma.Config, netip.Addr) {
		c := rdma.DefaultConfig()
		c.Device = os.Getenv("RMATAIL_RXE_DEV" + n)
		return c, netip.MustParseAddr(os.Getenv("RMATAIL_RXE_ADDR" + n))
	}
	reader, from := side("0")
	exporter, to := side("1")
	export, err := rdma.NewExport(exporter, mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = export.Close() })
	dial, err := rdma.Prepare(reader, to)
	if err != nil {
		t.Fatal(err)
	}
	answer, responder, err := export.Accept(t.Context(), dial.Offer(), to, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = responder.Close() })
	conn, err := dial.Finish(t.Context(), answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := change(export); err != nil {
		t.Fatal(err)
	}
	return conn
}

// The trace counts what the reader counts: every READ, once, with all of its bytes.
func TestRxeTraceCountsTheReads(t *testing.T) {
	pairOfDevices(t)
	netdev := os.Getenv("RMATAIL_RXE_NET0")
	if netdev == "" {
		t.Fatal("RMATAIL_RXE is set, RMATAIL_RXE_NET0 is not")
	}
	path := filepath.Join(t.TempDir(), "reads.pcap")
	const conns, batches, each = 3, 40, 16
	tr := startTrace(t, "-i", netdev, "-w", path)
	var posted, bytes uint64
	for range conns {
		conn := rdmaPair(t, each)
		b, err := conn.NewBatch(each * 4096)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batches {
			b.Reset()
			for page := range each {
				size := 4096 >> (i % 4)
				if b.Add(uint64(page)*4096, size) == nil {
					t.Fatal("no room in the batch")
				}
				bytes += uint64(size)
			}
			if err := b.Do(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		b.Release()
		posted += conn.Stats().Posted
	}
	r := tr.report()
	if r.Lost != 0 || r.BadICRC != 0 || r.Malformed != 0 {
		t.Errorf("%d lost, %d with a bad ICRC, %d malformed", r.Lost, r.BadICRC, r.Malformed)
	}
	if r.Total.Reads != posted || r.Total.Completed != posted || posted != conns*batches*each {
		t.Errorf("the trace has %d READs, %d completed; the readers posted %d", r.Total.Reads, r.Total.Completed, posted)
	}
	if r.Total.ResponseBytes != bytes || r.Total.RequestedBytes != bytes {
		t.Errorf("%d bytes asked for, %d answered, want %d", r.Total.RequestedBytes, r.Total.ResponseBytes, bytes)
	}
	if len(r.Connections) != conns {
		t.Errorf("%d connections, want %d: %+v", len(r.Connections), conns, r.Connections)
	}
	for _, c := range r.Connections {
		if c.ReaderQP == 0 || c.MemoryQP == 0 || c.PathMTU != 4096 || c.Latency == nil || c.Latency.Count != batches*each || len(c.NAKs) != 0 || c.Gaps+c.Missing != 0 {
			t.Errorf("%+v", c)
		}
	}
	l := r.Total.Latency
	t.Logf("report: live trace of %d READs over %d connections: latency p50 %.0f us, p99 %.0f us, max %.0f us; %d sent again", r.Total.Reads, len(r.Connections), l.P50, l.P99, l.Max, r.Total.Retransmits+r.Total.Repeats)

	// The file that it wrote says the same.
	var again trace.Report
	if err := json.Unmarshal([]byte(must(t, nil, "trace", "--json", path).stdout), &again); err != nil {
		t.Fatal(err)
	}
	if again.Total.Completed != posted || again.Total.ResponseBytes != bytes || *again.Total.Latency != *l {
		t.Errorf("from the file: %+v\nlive: %+v", again.Total, r.Total)
	}
}

// A READ that is refused shows as a NAK, and what was behind it as failed.
func TestRxeTraceShowsARefusal(t *testing.T) {
	pairOfDevices(t)
	tr := startTrace(t, "-i", os.Getenv("RMATAIL_RXE_NET0"))
	conn := rdmaPairAfter(t, 4, func(e *rdma.Export) error { return e.Reregister() }) // its key is stale
	b, err := conn.NewBatch(4 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for page := range 4 {
		b.Add(uint64(page)*4096, 4096)
	}
	if err := b.Do(time.Now().Add(20 * time.Second)); err == nil {
		t.Fatal("a READ with a stale key succeeds")
	}
	r := tr.report()
	if r.Total.NAKs["remote_access_error"] == 0 || r.Total.Failed == 0 || r.Total.Completed != 0 {
		t.Errorf("%+v", r.Total)
	}
}
