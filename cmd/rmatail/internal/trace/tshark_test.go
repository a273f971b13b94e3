package trace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Wireshark's own program opens what we write, and sees the same in it.
func TestRealWiresharkOpensTheFile(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: the file is only read back by our own reader here")
	}
	path := filepath.Join(t.TempDir(), "trace.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	r := report(t, trouble(), Options{Write: NewWriter(f)})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-n", "-r", path, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn", "-e", "infiniband.reth.dmalen", "-e", "frame.time_epoch").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != int(r.Packets) {
		t.Fatalf("tshark sees %d packets, want %d\n%s", len(lines), r.Packets, out)
	}
	count := map[string]int{}
	for _, l := range lines {
		count[strings.Split(l, "\t")[0]]++
	}
	if got := fmt.Sprint(count); got != "map[12:43 13:40 14:80 15:40 16:1 17:1]" {
		t.Errorf("opcodes %s", got)
	}
	if want := fmt.Sprintf("12\t0\t4096\t%d.000001000", epoch.Unix()); lines[0] != want {
		t.Errorf("first packet %q, want %q", lines[0], want)
	}
	t.Logf("report: tshark opens the pcap: %d packets, the same opcodes", len(lines))
}
