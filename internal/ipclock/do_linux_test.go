package ipclock_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/internal/ipclock"
)

// variable makes a copy of the test binary report what it may lock.
const variable = "RMATAIL_TEST_IPCLOCK"

const limit, need = 64 << 10, 1 << 20

func TestMain(m *testing.M) {
	if os.Getenv(variable) == "" {
		os.Exit(m.Run())
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		fmt.Println("limit:", err)
		os.Exit(1)
	}
	mem, err := unix.Mmap(-1, 0, need, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		fmt.Println("mmap:", err)
		os.Exit(1)
	}
	fmt.Println("plain:", unix.Mlock(mem) == nil)
	fmt.Println("within:", ipclock.Do(func() error { return unix.Mlock(mem) }) == nil)
	_ = unix.Munlock(mem)
	fmt.Println("after:", unix.Mlock(mem) == nil)
}

// TestRealOrdinaryUser runs a program as nobody with a limit of 64 KiB, with and without the capability in its file.
func TestRealOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a file a capability and to become nobody")
	}
	for name, c := range map[string]struct {
		permitted uint32
		want      string
	}{
		"capability in the file": {1 << unix.CAP_IPC_LOCK, "plain: false\nwithin: true\nafter: false\n"},
		"no capability":          {0, "plain: false\nwithin: false\nafter: false\n"},
	} {
		t.Run(name, func(t *testing.T) {
			program := program(t, c.permitted)
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), variable+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if string(out) != c.want {
				t.Errorf("got:\n%swant:\n%s", out, c.want)
			}
		})
	}
}

// program is a copy of the test binary that nobody may run, with the capability permitted in its file, and not effective.
func program(t *testing.T, permitted uint32) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()) && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if permitted == 0 {
		return path
	}
	data := make([]byte, 20) // struct vfs_cap_data, version 2
	binary.LittleEndian.PutUint32(data, 0x02000000)
	binary.LittleEndian.PutUint32(data[4:], permitted)
	switch err := unix.Setxattr(path, "security.capability", data, 0); {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOTSUP):
		t.Skipf("a file cannot have a capability here: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	return path
}

// TestErrors passes the error of the call on.
func TestErrors(t *testing.T) {
	want := errors.New("no")
	if err := ipclock.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}
