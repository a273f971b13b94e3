package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the checkout.
const root = "../.."

// bin is rmatail, built from the checkout.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rmatail-deploy-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin = filepath.Join(dir, "rmatail")
		if out, err := exec.Command(filepath.Join(root, "scripts/build"), "-o", bin).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
			return 1
		}
		return m.Run()
	}())
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// need skips when a program is missing, and fails in CI, which promises it.
func need(t *testing.T, name, pkg string) string {
	t.Helper()
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing: apt-get install %s", name, pkg)
	}
	t.Skipf("%s is missing: apt-get install %s", name, pkg)
	return ""
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// parses holds that rmatail takes these arguments: it is told to say how the command is used, which it does only after
// all flags before were taken.
func parses(t *testing.T, args []string) {
	t.Helper()
	if len(args) == 0 {
		t.Fatal("no arguments")
	}
	help, err := exec.Command(bin, args[0], "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("rmatail %s: %v: %s", args[0], err, help)
	}
	for _, a := range args[1:] {
		if flag, _, _ := strings.Cut(a, "="); strings.HasPrefix(flag, "--") && !strings.Contains(string(help), flag) {
			t.Errorf("rmatail %s has no flag %s", args[0], flag)
		}
	}
}
