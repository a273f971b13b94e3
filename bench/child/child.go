package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// StopTime is how long a process may take to end when it is stopped.
const StopTime = 10 * time.Second

// Process is a child. One goroutine at a time may use it.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	lines  chan string // of its standard output; closed at its end
	said   tail
	end    func() error // asks it to end
	ended  chan struct{}
	err    error // of Wait, after ended
}

// Start starts a program that ends with its standard input, in an environment
// without RMATAIL_*: what it gets is on its command line.
func Start(args ...string) (*Process, error) {
	p := command(args)
	separate(p.cmd)
	if err := p.start(func() error { return p.stdin.Close() }); err != nil {
		return nil, err
	}
	return p, nil
}

// StartForeign starts a program that knows nothing of us: it is stopped by SIGTERM
// and, where the kernel does that, killed when this process dies.
func StartForeign(args ...string) (*Process, error) {
	p := command(args)
	bind(p.cmd)
	if err := p.start(func() error { return errors.Join(p.stdin.Close(), p.cmd.Process.Signal(syscall.SIGTERM)) }); err != nil {
		return nil, err
	}
	return p, nil
}

func command(args []string) *Process {
	p := &Process{cmd: exec.Command(args[0], args[1:]...), lines: make(chan string), ended: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "RMATAIL_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Stderr = &p.said
	return p
}

func (p *Process) start(end func() error) (err error) {
	p.end = end
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	// Not StdoutPipe, whose reads Wait cuts off.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.stdout, p.cmd.Stdout = r, w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return fmt.Errorf("start %s: %w", p.cmd.Args[0], err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	go p.listen()
	return nil
}

// listen ends with the child, or with Stop.
func (p *Process) listen() {
	defer close(p.lines)
	var line []byte
	var b [4096]byte
	for {
		n, err := p.stdout.Read(b[:])
		line = append(line, b[:n]...)
		for {
			before, after, ok := bytes.Cut(line, []byte("\n"))
			if !ok {
				break
			}
			select {
			case p.lines <- string(before):
			case <-p.ended:
				return
			}
			line = after
		}
		if err != nil {
			return
		}
	}
}

// PID is the child's process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the child has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Line waits for the child's next line of output.
func (p *Process) Line(ctx context.Context, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case l, ok := <-p.lines:
		if !ok {
			return "", p.Failed(errors.New("no line of output"))
		}
		return l, nil
	case <-ctx.Done():
		return "", p.Failed(ctx.Err())
	}
}

// Send writes a line to the child's standard input. A few hundred bytes fit the
// pipe, whether or not the child reads.
func (p *Process) Send(line string) error {
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		return p.Failed(err)
	}
	return nil
}

// Stop asks the child to end, waits for it, and kills it after StopTime.
func (p *Process) Stop() error {
	_ = p.end() // it may have ended just now
	timer := time.NewTimer(StopTime)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.err = errors.Join(fmt.Errorf("did not end within %s", StopTime), p.err)
	}
	for range p.lines { // until listen has ended
	}
	p.stdout.Close()
	if p.err != nil {
		return p.Failed(p.err)
	}
	return nil
}

// Kill ends the child at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	for range p.lines {
	}
	p.stdout.Close()
}

// Failed adds what the child said last to an error.
func (p *Process) Failed(err error) error {
	if said := p.said.String(); said != "" {
		return fmt.Errorf("%s: %w; it said:\n%s", p.cmd.Args[0], err, said)
	}
	return fmt.Errorf("%s: %w", p.cmd.Args[0], err)
}
