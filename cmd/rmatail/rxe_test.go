package main

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/demo"
)

// devicePair is what the rxe ring promises: a device to read with, and another
// one's address for the node.
type devicePair struct{ device, listen string }

func pairOfDevices(t *testing.T) devicePair {
	t.Helper()
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("RMATAIL_RXE is not set: no RDMA devices are promised; scripts/test --ring rxe brings some")
	}
	p := devicePair{os.Getenv("RMATAIL_RXE_DEV0"), os.Getenv("RMATAIL_RXE_ADDR1")}
	if p.device == "" || p.listen == "" {
		t.Fatal("RMATAIL_RXE is set, RMATAIL_RXE_DEV0 or RMATAIL_RXE_ADDR1 is not")
	}
	p.listen = net.JoinHostPort(p.listen, "0")
	return p
}

func TestRxeTailReadsOverRDMA(t *testing.T) {
	d := pairOfDevices(t)
	n := startNode(t, "--listen", d.listen, "--dir", t.TempDir(), "--rdma", "require")
	text := numbered(20_000)
	must(t, strings.NewReader(text), "append", "--server", n.addr, "logs/0")
	r := must(t, nil, "tail", "--server", n.addr, "logs/0", "--from", "earliest", "--transport", "rdma", "--device", d.device)
	if r.stdout != text || !strings.Contains(r.stderr, "transport=rdma") {
		t.Errorf("tail gives %d bytes, want %d over rdma\n%s", len(r.stdout), len(text), r.stderr)
	}
}

func TestRxeDemoReadsOverRDMA(t *testing.T) {
	d := pairOfDevices(t)
	r := must(t, nil, "demo", "--json", "--transport", "rdma", "--listen", d.listen, "--device", d.device,
		"--consumers", "2", "--for", "3s", "--rate", "256KiB")
	var report demo.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%q: %v", r.stdout, err)
	}
	if report.Transport != "rdma" || report.Reads["rdma"] == 0 || report.Reads["tcp"] != 0 || report.DeliveredBytes != 2*report.AppendedBytes || report.WrongBytes != 0 || report.Gaps != 0 {
		t.Errorf("%s", r.stdout)
	}
	t.Logf("report: %s", r.stdout)
}
