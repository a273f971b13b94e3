package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
	"github.com/rmatail/rmatail/chunkstore/watch"
)

// running is a command under way with what it says on standard error.
type running struct {
	*exec.Cmd
	log *lockedBuffer
	in  io.WriteCloser
}

// begin starts a command that lasts until the end of the test.
func begin(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{Cmd: command(t, args...), log: &lockedBuffer{b: &bytes.Buffer{}}}
	r.Stderr = r.log
	var err error
	if r.in, err = r.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.end)
	return r
}

func (r *running) end() {
	r.Process.Signal(syscall.SIGCONT)
	r.Process.Kill()
	r.Wait()
}

func (r *running) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(r.in, text); err != nil {
		t.Fatal(err)
	}
}

var httpAt = regexp.MustCompile(`msg=metrics http=([0-9.:]+)`)

// metricsAt is the address of a command's metrics, once the shard is in them.
func (r *running) metricsAt(t *testing.T) (addr string) {
	t.Helper()
	eventually(t, "the metrics of a consumer", func() bool {
		m := httpAt.FindStringSubmatch(r.log.String())
		if m == nil {
			return false
		}
		addr = m[1]
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(b), `rmatail_reader_shard_state{`)
	})
	return addr
}

// TestRealStatTellsStates: real processes that stop, are throttled, lose their cache
// and their transports, and what stat says of the shard.
func TestRealStatTellsStates(t *testing.T) {
	s := startSite(t, 2, 0)
	described := func(socket string) string {
		var b strings.Builder
		b.WriteString("name: test\nnodes:\n")
		for i, addr := range s.addrs {
			path := "none"
			if socket == "" {
				path = filepath.Join(s.dir, s.name(i)+".sock")
			}
			fmt.Fprintf(&b, "  - {name: %s, addr: %q, arena: 8MiB, socket: %q}\n", s.name(i), addr, path)
		}
		fmt.Fprintf(&b, "replicas: {full: 2, metadata: 2}\nstore: {dir: %q}\n", s.store())
		return b.String()
	}
	s.write(t, described(""))
	for i := range s.nodes {
		s.start(t, i)
	}
	must(t, strings.NewReader(numbered(20_000)), "append", "--cluster", s.file, "--dir", s.store(), "logs/0")
	producer := begin(t, "append", "--cluster", s.file, "--dir", s.store(), "logs/0")
	producer.write(t, "one more\n")

	told := func(want cause.State, words string, args ...string) {
		t.Helper()
		last := ""
		eventually(t, want.String()+" "+words, func() bool {
			r := must(t, nil, append([]string{"stat", "--cluster", s.file, "--json"}, args...)...)
			var report survey.Report
			if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || len(report.Shards) != 1 {
				t.Fatalf("%q: %v", r.stdout, err)
			}
			sh := report.Shards[0]
			if now := sh.State.String() + ": " + sh.Why; now != last {
				last = now
				t.Log(now)
			}
			return sh.State == want && strings.Contains(sh.Why, words)
		})
		// What a page shows, without being told of consumers: they report.
		eventually(t, "top to tell "+want.String(), func() bool {
			r := must(t, nil, "top", "--cluster", s.file, "--once", "--json")
			var f watch.Frame
			if err := json.Unmarshal([]byte(r.stdout), &f); err != nil || len(f.Shards) != 1 {
				t.Fatalf("%q: %v", r.stdout, err)
			}
			if now := "top: " + f.Shards[0].State.String() + ": " + f.Shards[0].Why; now != last {
				last = now
				t.Log(now)
			}
			return f.Shards[0].State == want
		})
		if r := must(t, nil, append([]string{"stat", "--cluster", s.file}, args...)...); !strings.Contains(r.stdout, "STATE") || !strings.Contains(r.stdout, "WHY") {
			t.Errorf("the text has no state:\n%s", r.stdout)
		}
	}
	told(cause.Fine, "heartbeat")

	producer.Process.Signal(syscall.SIGSTOP)
	told(cause.ProducerStopped, "no heartbeat for")
	producer.Process.Signal(syscall.SIGCONT)
	told(cause.Fine, "heartbeat")

	capped := begin(t, "tail", "--cluster", s.file, "--dir", s.store(), "logs/0", "--from", "earliest", "-f", "--rate", "8KiB", "--http", "127.0.0.1:0")
	told(cause.ConsumerSlow, "bytes behind", "--reader", capped.metricsAt(t))
	capped.end()

	quick := begin(t, "tail", "--cluster", s.file, "--dir", s.store(), "logs/0", "--from", "latest", "-f", "--http", "127.0.0.1:0")
	told(cause.Fine, "", "--reader", quick.metricsAt(t))
	for i := range s.nodes {
		s.nodes[i].end(t, syscall.SIGKILL)
	}
	told(cause.CacheMissing, "0 replicas")

	s.write(t, described("none"))
	for i := range s.nodes {
		s.start(t, i)
	}
	producer.write(t, "and another\n")
	told(cause.TransportDegraded, "consumer at", "--reader", quick.metricsAt(t))
	quick.end()

	throttled := begin(t, "tail", "--cluster", s.file, "--dir", s.store(), "logs/0", "--from", "earliest", "-f", "--durable-rate", "8KiB", "--http", "127.0.0.1:0")
	told(cause.DurableThrottled, "consumer at", "--reader", throttled.metricsAt(t))
	throttled.end()
	told(cause.Fine, "heartbeat")
}
