package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// fed is an append whose standard input takes as much as it likes.
type fed struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  bytes.Buffer
	out   bytes.Buffer
	taken atomic.Int64 // bytes of the input
	done  chan struct{}
}

func feedAppend(t *testing.T, input []byte, args ...string) *fed {
	t.Helper()
	f := &fed{t: t, cmd: command(t, append([]string{"append", "--json"}, args...)...), done: make(chan struct{})}
	f.cmd.Stderr, f.cmd.Stdout = &f.said, &f.out
	in, err := f.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.done)
		defer in.Close()
		for rest := input; len(rest) > 0; {
			n, err := in.Write(rest[:min(len(rest), 16<<10)])
			f.taken.Add(int64(n))
			if err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	t.Cleanup(func() {
		f.cmd.Process.Kill()
		<-f.done
	})
	return f
}

// stalls waits until nothing has been taken for a while, and returns how much was.
func (f *fed) stalls() int64 {
	f.t.Helper()
	last, since := f.taken.Load(), time.Now()
	eventually(f.t, "the input to be held up", func() bool {
		if now := f.taken.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
	return last
}

func (f *fed) end() (sum appended, code int) {
	f.t.Helper()
	await(f.t, f.done, "the input to be taken")
	f.cmd.Wait()
	if err := json.Unmarshal(f.out.Bytes(), &sum); err != nil {
		f.t.Fatalf("%v\n%s", err, &f.said)
	}
	return sum, f.cmd.ProcessState.ExitCode()
}
