package chaos

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is this test binary in another role.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs a role, by a command that runs another one if there is a prefix.
func start(role string, spec any, prefix ...string) (*process, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(prefix), os.Args[0])
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role, specEnv+"="+string(b))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// line reads the next line that the process says.
func (p *process) line() (string, error) {
	s, err := p.out.ReadString('\n')
	return strings.TrimSpace(s), err
}

// kill ends the process as a crash would, also when it is stopped.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.wait()
}

func (p *process) wait() {
	io.Copy(io.Discard, p.out)
	p.cmd.Wait()
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// eventually polls a condition until it holds, at most for a time.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if !within(limit, ok) {
		t.Fatalf("waited %v for %s", limit, what)
	}
}

func within(limit time.Duration, ok func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return ok()
		}
	}
	return true
}
