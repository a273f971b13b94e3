//go:build linux && cgo && !noverbs

package ibverbs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRealWithoutLibrary runs this binary where libibverbs.so.1 cannot be
// loaded: it must start, and say what is missing.
func TestRealWithoutLibrary(t *testing.T) {
	if os.Getenv("RMATAIL_TEST_NO_LIBRARY") == "1" {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil || strings.Contains(string(maps), "libibverbs") {
			t.Errorf("the library is mapped before the first call (%v)", err)
		}
		for range 2 {
			_, err := Devices()
			if !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "install") {
				t.Errorf("Devices: %v", err)
			}
			if _, err := Open("rxe0"); !errors.Is(err, ErrNoLibrary) {
				t.Errorf("Open: %v", err)
			}
		}
		return
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libibverbs.so.1"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestRealWithoutLibrary$", "-test.v")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "RMATAIL_TEST_NO_LIBRARY=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}
