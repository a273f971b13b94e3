package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const childEnv = "RMATAIL_WIRE_TEST_CHILD"

// runChild is a node in a process of its own, for TestRealStoppedNode; it ends when its stdin does.
func runChild() bool {
	if os.Getenv(childEnv) == "" {
		return false
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		p := &peer{Conn: conn, FrameReader: NewFrameReader(bufio.NewReader(conn))}
		h, _, err := p.Next()
		if err != nil {
			os.Exit(1)
		}
		if _, err := conn.Write(frame(Header{Op: OpHello, ID: h.ID}, must(testHello.AppendTo(nil)))); err != nil {
			os.Exit(1)
		}
		serve(p)
	}()
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return true
}

// A node that is stopped makes calls end by their deadlines, and the same connection serves again when it goes on.
func TestRealStoppedNode(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, strings.TrimSpace(line), Options{})
	buf := make([]byte, 256<<10)
	if _, err := readAt(t, c, soon(), 4096, buf).Wait(); err != nil || !bytes.Equal(buf, arena[4096:][:len(buf)]) {
		t.Fatalf("before: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The signal is carried out some time after kill has returned; wait4 tells when every thread has stopped.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("status %v, %v", status, err)
	}
	for range 20 {
		begun := time.Now()
		_, err := readAt(t, c, begun.Add(20*time.Millisecond), 0, buf).Wait()
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.Err() != nil {
			t.Fatalf("stopped: %v, connection %v", err, c.Err())
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("a deadline of 20 ms took %s", took)
		}
	}
	for i := range buf {
		buf[i] = 0
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := readAt(t, c, soon(), 8192, buf).Wait(); err != nil || !bytes.Equal(buf, arena[8192:][:len(buf)]) {
		t.Fatalf("after: %v", err)
	}
}
