package server

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
)

// askHealth asks a node, and returns what it says of itself.
func askHealth(s *Server, path string) (int, string) {
	w := httptest.NewRecorder()
	s.web.server.Handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// TestRealReadiness: ready is who is accepting, has its arena and can write its store.
func TestRealReadiness(t *testing.T) {
	cfg := testConfig(t)
	cfg.HTTP, cfg.Registerer = "127.0.0.1:0", nil
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := askHealth(s, "/readyz"); code != 503 || !strings.Contains(body, "not accepted yet") {
		t.Errorf("before Serve: %d %q", code, body)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context()) }()
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 5000)
	eventually(t, "the node ready", func() bool { code, _ := askHealth(s, "/readyz"); return code == 200 })
	if entries, err := os.ReadDir(cfg.Dir); err != nil || len(entries) == 0 {
		t.Errorf("%v, %v", entries, err)
	} else {
		for _, e := range entries {
			if e.Name() == ".ready" {
				t.Error("the check leaves a file")
			}
		}
	}
	aside := cfg.Dir + ".aside"
	if err := os.Rename(cfg.Dir, aside); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node without its directory, not ready", func() bool {
		code, body := askHealth(s, "/readyz")
		return code == 503 && strings.Contains(body, "durable store: ") && strings.Contains(body, filepath.Base(cfg.Dir))
	})
	if code, _ := askHealth(s, "/healthz"); code != 200 {
		t.Errorf("a restart does not bring a directory back: %d", code)
	}
	if err := os.Rename(aside, cfg.Dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node ready again", func() bool { code, _ := askHealth(s, "/readyz"); return code == 200 })
	s.main().arena.Bytes()[0] ^= 1 // a header that no consumer would take
	if code, body := askHealth(s, "/readyz"); code != 503 || !strings.Contains(body, "arena") {
		t.Errorf("with a broken arena: %d %q", code, body)
	}
	s.main().arena.Bytes()[0] ^= 1
	s.closing.Store(true)
	if code, body := askHealth(s, "/readyz"); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("on its way down: %d %q", code, body)
	}
	s.closing.Store(false)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestCheckThatHangs is run once for all who ask, and told of after a while; its result
// counts for a moment.
func TestCheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		release := make(chan error)
		c := check{start: func(f func()) bool { go f(); return true }, run: func() error { runs.Add(1); return <-release }}
		answers := make(chan error, 3)
		for range 3 {
			go func() { answers <- c.wait(t.Context()) }()
		}
		synctest.Wait()
		for range 3 {
			if err := <-answers; err == nil || !strings.Contains(err.Error(), "no answer for 2s") {
				t.Errorf("a check that hangs: %v", err)
			}
		}
		if err := c.wait(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer for 4s") || runs.Load() != 1 {
			t.Errorf("it still hangs: %v, %d runs", err, runs.Load())
		}
		full := errors.New("disk full")
		release <- full
		synctest.Wait()
		if err := c.wait(t.Context()); !errors.Is(err, full) || runs.Load() != 1 {
			t.Errorf("its result: %v, %d runs", err, runs.Load())
		}
		time.Sleep(2 * healthFresh) // of the bubble's clock
		go func() { answers <- c.wait(t.Context()) }()
		synctest.Wait()
		release <- nil
		if err := <-answers; err != nil || runs.Load() != 2 {
			t.Errorf("later: %v, %d runs", err, runs.Load())
		}
		gone := check{start: func(func()) bool { return false }}
		if err := gone.wait(t.Context()); err == nil {
			t.Error("a check of a node that has ended")
		}
	})
}
