package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestRealProgressIsDrawnOnATerminalOnly also has something logged meanwhile: it
// must not be drawn over.
func TestRealProgressIsDrawnOnATerminalOnly(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir, "--policy", "never")
	addr := n.addr
	input := filepath.Join(t.TempDir(), "input")
	os.WriteFile(input, noise(3<<20, 1), 0o600)
	master, slave := openTerminal(t)
	c := command(t, "append", "--server", addr, "logs/0", input, "--rate", "2MiB", "--batch", "64KiB")
	c.Stderr = slave
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a part of the input in the shard", func() bool { return length(t, dir, "logs/0000") > 1<<20 })
	n.end(t, 9)
	startNode(t, "--listen", addr, "--dir", dir, "--policy", "never")
	c.Wait()
	slave.Close()
	var seen bytes.Buffer
	io.Copy(&seen, master) // until EIO: nobody has the other end
	for _, want := range []string{"durable to", "%", "MiB/s", "trying again", "appended "} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("the terminal does not show %q:\n%q", want, seen.String())
		}
	}
	if r := must(t, nil, "append", "--server", addr, "logs/1", input); strings.Contains(r.stderr, "durable to") || strings.Contains(r.stderr, "\x1b") {
		t.Errorf("drawn on what is no terminal: %q", r.stderr)
	}
}
