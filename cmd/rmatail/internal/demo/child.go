package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// child is a process of the demo. It is in a process group of its own, so that
// Ctrl-C reaches the parent alone, and it ends when its standard input does.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   io.ReadCloser
	log   string // file with its standard error
	ended chan struct{}
	err   error // of Wait, after ended
}

// stopTime bounds a child's clean end; then it is killed.
const stopTime = 10 * time.Second

func startChild(name, dir string, args ...string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(args[0], args[1:]...), log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	c.cmd.Env = withoutSettings(os.Environ())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.cmd.Stderr = log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Not StdoutPipe, whose reads Wait cuts off.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.out, c.cmd.Stdout = r, w
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// withoutSettings drops RMATAIL_*: what children get is said on their command line.
func withoutSettings(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "RMATAIL_") {
			out = append(out, e)
		}
	}
	return out
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the child's input and waits for it.
func (c *child) stop() error {
	c.stdin.Close()
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.ended
		c.err = errors.Join(fmt.Errorf("did not end within %s", stopTime), c.err)
	}
	c.out.Close()
	if c.err != nil {
		return c.failed(c.err)
	}
	return nil
}

// kill ends the child at once, when the demo has failed already.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	c.stdin.Close()
	c.out.Close()
}

// failed adds the end of what the child has said to an error.
func (c *child) failed(err error) error {
	said, readErr := os.ReadFile(c.log)
	if readErr != nil || len(bytes.TrimSpace(said)) == 0 {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("%s: %w; it said:\n  %s", c.name, err, strings.Join(lines[max(0, len(lines)-8):], "\n  "))
}

// line reads the child's first line of output.
func (c *child) line(ctx context.Context, timeout time.Duration) ([]byte, error) {
	type result struct {
		line []byte
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := readLine(c.out)
		got <- result{line, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, c.failed(r.err)
		}
		return r.line, nil
	case <-ctx.Done():
		return nil, c.failed(ctx.Err())
	}
}

// readLine reads byte by byte, so that nothing behind the line is taken.
func readLine(r io.Reader) (line []byte, err error) {
	var b [1]byte
	for len(line) < 64<<10 {
		if _, err := r.Read(b[:]); err != nil {
			return nil, fmt.Errorf("no line of output: %w", err)
		}
		if b[0] == '\n' {
			return line, nil
		}
		line = append(line, b[0])
	}
	return nil, errors.New("endless line of output")
}
