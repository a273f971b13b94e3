package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/demo"
)

func TestRealDemoDeliversEveryByte(t *testing.T) {
	input := filepath.Join(t.TempDir(), "input.log")
	if err := os.WriteFile(input, []byte(numbered(500)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"auto", "tcp"} {
		r := must(t, nil, "demo", "--json", "--input", input, "--consumers", "3", "--for", "1s", "--transport", transport)
		var report demo.Report
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
			t.Fatalf("%q: %v", r.stdout, err)
		}
		want := strings.Replace(transport, "auto", "shm", 1)
		if report.Transport != want || report.Reads[want] == 0 || report.Consumers != 3 || report.WrongBytes != 0 || report.Gaps != 0 ||
			report.AppendedBytes == 0 || report.DeliveredBytes != 3*report.AppendedBytes || report.Input != input {
			t.Errorf("%s: %s", transport, r.stdout)
		}
		if report.Samples != 3*report.Appends || report.DeliveryMS.P50 <= 0 || report.DeliveryMS.P99 < report.DeliveryMS.P50 || report.DeliveryMS.Max < report.DeliveryMS.P99 {
			t.Errorf("%s: %d times of %d appends: %+v", transport, report.Samples, report.Appends, report.DeliveryMS)
		}
		t.Logf("report: %s", r.stdout)
	}
	r := must(t, nil, "demo", "--consumers", "1", "--for", "300ms")
	if !strings.Contains(r.stdout, "0 wrong, 0 gaps") {
		t.Errorf("summary:\n%s", r.stdout)
	}
}

// TestRealDemoOfAClusterLosesANodeAndNoByte: four nodes, of which one is killed and
// comes back empty.
func TestRealDemoOfAClusterLosesANodeAndNoByte(t *testing.T) {
	r := must(t, nil, "demo", "--json", "--nodes", "4", "--kill", "--consumers", "2", "--for", "3s", "--arena", "8MiB")
	var report demo.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%q: %v", r.stdout, err)
	}
	if report.Nodes != 4 || report.Kills != 1 || report.WrongBytes != 0 || report.Gaps != 0 || report.AppendedBytes == 0 ||
		report.DeliveredBytes != 2*report.AppendedBytes || report.Reads["shm"] == 0 {
		t.Errorf("%s", r.stdout)
	}
	t.Logf("report: %s", r.stdout)
}

// TestRealDemoFailsWhenTheFilesAreWrong changes a byte of a durable file under a
// running demo.
func TestRealDemoFailsWhenTheFilesAreWrong(t *testing.T) {
	keep := filepath.Join(shortDir(t), "keep")
	c := command(t, "demo", "--keep", keep, "--consumers", "1", "--for", "3s")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a changed byte in a segment file", func() bool {
		segments, _ := filepath.Glob(filepath.Join(keep, "store", "demo", "0000", "*.log"))
		if len(segments) == 0 {
			return false
		}
		f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
		if err != nil {
			return false
		}
		defer f.Close()
		var b [1]byte
		if n, _ := f.ReadAt(b[:], 100); n == 0 {
			return false
		}
		b[0] ^= 1
		_, err = f.WriteAt(b[:], 100)
		return err == nil
	})
	c.Wait()
	said := stderr.String()
	if code := c.ProcessState.ExitCode(); code != exitError || !strings.Contains(said, "do not hold what was appended") && !strings.Contains(said, "differ from the durable files") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// TestRealDemoEndsWellAtASignal interrupts a demo that would take an hour.
func TestRealDemoEndsWellAtASignal(t *testing.T) {
	c := command(t, "demo", "--consumers", "2", "--for", "1h", "--json")
	var stdout bytes.Buffer
	c.Stdout = &stdout
	progress, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(progress)
	for said.Scan() && !strings.Contains(said.Text(), "delivered") {
	}
	c.Process.Signal(os.Interrupt)
	for said.Scan() {
	}
	c.Wait()
	var report demo.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil || c.ProcessState.ExitCode() != exitDone || report.AppendedBytes == 0 || report.DeliveredBytes != 2*report.AppendedBytes {
		t.Errorf("exit code %d, %v\n%s", c.ProcessState.ExitCode(), err, stdout.String())
	}
}

func TestRealDemoRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--input", "/nonexistent"}, exitError, "/nonexistent"},
		{[]string{"--consumers", "0"}, exitUsage, "--consumers"},
		{[]string{"--nodes", "0"}, exitUsage, "--nodes"},
		{[]string{"--kill"}, exitUsage, "--kill needs --nodes"},
		{[]string{"--keep", os.TempDir()}, exitUsage, "--keep"},
	} {
		if r := rmatail(t, nil, append([]string{"demo", "--for", "1s"}, c.args...)...); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("demo %v: exit code %d, want %d\n%s", c.args, r.code, c.code, r.stderr)
		}
	}
}
