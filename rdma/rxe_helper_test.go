//go:build unix

package rdma

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rxeHelper names the environment variable that makes the test binary another
// program: "export" serves memory to offers from stdin until stdin ends,
// "memlock" tries to register more memory than its limit allows.
const rxeHelper = "RMATAIL_TEST_HELPER"

func runRxeHelper() int {
	var err error
	switch os.Getenv(rxeHelper) {
	case "export":
		err = helperExport()
	case "memlock":
		err = helperMemlock()
	default:
		err = errors.New("unknown helper")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helperExport answers lines "offer local remote" with lines "answer" or
// "error: ...".
func helperExport() error {
	cfg := DefaultConfig()
	cfg.Device = os.Getenv("RMATAIL_RXE_DEV1")
	mem, err := mapMemory(1 << 20)
	if err != nil {
		return err
	}
	pattern(mem)
	e, err := NewExport(cfg, mem)
	if err != nil {
		return err
	}
	defer e.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		offer, err := hex.DecodeString(f[0])
		if err != nil {
			return err
		}
		reply, _, err := e.Accept(context.Background(), offer, netip.MustParseAddr(f[1]), netip.MustParseAddr(f[2]))
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(hex.EncodeToString(reply))
	}
	return in.Err()
}

func helperMemlock() error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return err
	}
	// Root may lock what it likes.
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	cfg := DefaultConfig()
	cfg.Device = os.Getenv("RMATAIL_RXE_DEV1")
	mem, err := mapMemory(8 << 20)
	if err != nil {
		return err
	}
	_, err = NewExport(cfg, mem)
	var m *MemlockError
	if !errors.As(err, &m) || m.Need != 8<<20 || m.Limit != 1<<20 || m.Device != cfg.Device || !errors.Is(err, ErrNoDevice) || Decide(err) != Fatal {
		return fmt.Errorf("export: %w", err)
	}
	fmt.Println(err)
	_, err = Prepare(cfg, netip.MustParseAddr(os.Getenv("RMATAIL_RXE_ADDR0")))
	if !errors.Is(err, ErrMemlock) || !strings.Contains(err.Error(), "ulimit") {
		return fmt.Errorf("prepare: %w", err)
	}
	return nil
}

// helper starts this binary as another program.
func helper(t *testing.T, what string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), rxeHelper+"="+what)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(out)
}

// connectHelper connects to a helper that exports.
func connectHelper(t *testing.T, in io.Writer, out *bufio.Reader) *Conn {
	t.Helper()
	from, to := requireRxe(t)
	d, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(in, "%x %v %v\n", d.Offer(), to.addr, from.addr)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(errors.Join(err, d.Close()))
	}
	reply, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(line, errors.Join(err, d.Close()))
	}
	c, err := d.Finish(t.Context(), reply)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, c) })
	return c
}

// TestRxePeerStoppedAndKilled: a stopped process is read as before; a killed one
// is noticed within 2 s.
func TestRxePeerStoppedAndKilled(t *testing.T) {
	requireRxe(t)
	cmd, in, out := helper(t, "export")
	exited := make(chan error, 1)
	defer func() {
		cmd.Process.Kill()
		<-exited
	}()
	defer in.Close()
	c := connectHelper(t, in, out)
	// Only after the pipes are read for the last time.
	go func() { exited <- cmd.Wait() }()

	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b := newBatch(t, c, 64<<10)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		b.Reset()
		for i := range 16 {
			plan(t, b, uint64(i)*4096, 4096)
		}
		if err := b.Do(soon()); err != nil {
			t.Fatalf("peer stopped: %v", err)
		}
	}
	b.Release()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	failsWith(t, c, 2*time.Second+500*time.Millisecond, Retryable)
	s := closeConn(t, c)
	t.Logf("%+v", s)
}

// TestRxeMemlock: a limit that is too low is named, with the fix.
func TestRxeMemlock(t *testing.T) {
	requireRxe(t)
	cmd, in, out := helper(t, "memlock")
	in.Close()
	text, readErr := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || readErr != nil {
		t.Fatalf("%v %v\n%s", err, readErr, text)
	}
	for _, part := range []string{"RLIMIT_MEMLOCK is 1024 KiB", "8192 KiB", "LimitMEMLOCK", "CAP_IPC_LOCK"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
	t.Logf("%s", text)
}
