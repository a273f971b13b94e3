package rdma

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The reader of /sys reads what package os reads, and says so when it cannot.
func TestRealSysfsReader(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{"ports/1/gids/0": emptySlot + "\n", "ports/1/gids/1": "fe80::1\n", "ports/1/state": "4: ACTIVE\n"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sys := sysfsAt(root)
	if got, err := readText(sys, "ports/1/state"); got != "4: ACTIVE" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	gids, err := readGIDs(sys, "ports/1", 1, LinkLayerInfiniBand)
	if want := "port 1 gid 1 fe80::1 IB\n"; err != nil || table(gids) != want {
		t.Errorf("%v, %v, want %s", gids, err, want)
	}
	before := openNow(t)
	for range 10 {
		if _, err := readGIDs(sys, "ports/1", 1, LinkLayerInfiniBand); err != nil {
			t.Fatal(err)
		}
		if _, err := sys.ReadFile("ports"); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("a directory: %v", err)
		}
		if _, err := sys.ReadFile("ports/2/state"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
		if _, err := readGIDs(sys, "ports/2", 2, LinkLayerEthernet); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no directory: %v", err)
		}
	}
	if after := openNow(t); after > before {
		t.Errorf("%d open files, before %d", after, before)
	}
}

func openNow(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}
