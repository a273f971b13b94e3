package child

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTailKeepsBothEnds(t *testing.T) {
	var all tail
	for _, part := range []string{"panic: why\n", strings.Repeat("x", 10_000), "\nwhere"} {
		if n, err := all.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	s := all.String()
	if !strings.HasPrefix(s, "panic: why") || !strings.HasSuffix(s, "where") || !strings.Contains(s, "\n...\n") || len(s) > headBytes+tailBytes+5 {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	var short tail
	short.Write([]byte("no more\n"))
	if s := short.String(); s != "no more" {
		t.Errorf("%q", s)
	}
}

func TestRealProcess(t *testing.T) {
	p, err := Start("sh", "-c", "echo $RMATAIL_X ready; read line; echo got $line; cat >/dev/null; echo bye >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.Line(t.Context(), time.Minute); line != "ready" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if err := p.Send("this"); err != nil {
		t.Error(err)
	}
	if line, err := p.Line(t.Context(), time.Minute); line != "got this" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := p.Line(t.Context(), time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no line: %v", err)
	}
	if used, known := p.CPU(); known && used <= 0 {
		t.Errorf("%s of processor time", used)
	}
	err = p.Stop()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 3 || !strings.Contains(err.Error(), "bye") {
		t.Errorf("%v", err)
	}
}

// TestRealForeign does not care for its standard input.
func TestRealForeign(t *testing.T) {
	p, err := StartForeign("sh", "-c", "echo ready; exec sleep 100")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.Line(t.Context(), time.Minute); line != "ready" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	began := time.Now()
	if err := p.Stop(); err == nil || time.Since(began) > StopTime/2 {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	select {
	case <-p.Ended():
	default:
		t.Error("it has not ended, and was stopped")
	}
	for _, start := range []func(...string) (*Process, error){Start, StartForeign} {
		if p, err := start("/no/such/program"); err == nil || p != nil { // nobody can stop what was not started
			t.Errorf("%v, %v", p, err)
		}
	}
}
