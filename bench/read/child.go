package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	startTime = 60 * time.Second // emulated hosts are slow
	stopTime  = 10 * time.Second
)

// child is a process of the benchmark. It ends when its standard input does, so
// that it does not outlive this process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	lines  chan string // of its standard output; closed at its end
	said   tail
	ended  chan struct{}
	err    error // of Wait, after ended
}

// startChild starts a program in an environment without RMATAIL_*: what it gets
// is on its command line.
func startChild(args ...string) (*child, error) {
	c := &child{cmd: exec.Command(args[0], args[1:]...), lines: make(chan string), ended: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "RMATAIL_") {
			c.cmd.Env = append(c.cmd.Env, e)
		}
	}
	c.cmd.Stderr = &c.said
	separate(c.cmd)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Not StdoutPipe, whose reads Wait cuts off.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.stdout, c.cmd.Stdout = r, w
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	go c.listen()
	return c, nil
}

// listen ends with the child, or with stop.
func (c *child) listen() {
	defer close(c.lines)
	var line []byte
	var b [4096]byte
	for {
		n, err := c.stdout.Read(b[:])
		line = append(line, b[:n]...)
		for {
			before, after, ok := bytes.Cut(line, []byte("\n"))
			if !ok {
				break
			}
			select {
			case c.lines <- string(before):
			case <-c.ended:
				return
			}
			line = after
		}
		if err != nil {
			return
		}
	}
}

func (c *child) cpu() cpuClock { return cpuOf(c.cmd.Process.Pid) }

func (c *child) wakes() int { return wakesOf(c.cmd.Process.Pid) }

// line waits for the child's next line of output.
func (c *child) line(ctx context.Context, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case l, ok := <-c.lines:
		if !ok {
			return "", c.failed(errors.New("no line of output"))
		}
		return l, nil
	case <-ctx.Done():
		return "", c.failed(ctx.Err())
	}
}

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
	for range c.lines { // until listen has ended
	}
	c.stdout.Close()
	if c.err != nil {
		return c.failed(c.err)
	}
	return nil
}

// failed adds what the child said last to an error.
func (c *child) failed(err error) error {
	if said := c.said.String(); said != "" {
		return fmt.Errorf("%s: %w; it said:\n%s", c.cmd.Args[0], err, said)
	}
	return fmt.Errorf("%s: %w", c.cmd.Args[0], err)
}

// tail keeps the end of what is written.
type tail struct {
	mu struct {
		sync.Mutex
		b []byte
	}
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.b = append(t.mu.b, p...)
	if n := len(t.mu.b) - tailBytes; n > 0 {
		t.mu.b = t.mu.b[:copy(t.mu.b, t.mu.b[n:])]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.mu.b))
}
