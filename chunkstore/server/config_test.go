package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

func TestValidate(t *testing.T) {
	good := Config{Listen: "127.0.0.1:0"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		say    string // part of the message
		change func(*Config)
	}{
		{"set one such as", func(c *Config) { c.Listen = "" }},
		{"want host:port", func(c *Config) { c.Listen = "localhost" }},
		{"want a port", func(c *Config) { c.Listen = "localhost:99999" }},
		{"http address", func(c *Config) { c.HTTP = "nonsense" }},
		{"64 MiB is a good start", func(c *Config) { c.Arena.Bytes = 1000 }},
		{"time to live", func(c *Config) { c.Arena.TTL = -1 }},
		{"auto, off or require", func(c *Config) { c.RDMAMode = 9 }},
		{"Retries", func(c *Config) { c.RDMA.Retries = 9 }},
		{"eviction interval", func(c *Config) { c.EvictEvery = -1 }},
		{"heartbeat", func(c *Config) { c.Heartbeat = -time.Second }},
		{"retention interval", func(c *Config) { c.RetainEvery = -1 }},
		{"writers", func(c *Config) { c.Limits.Writers = -1 }},
		{"connections", func(c *Config) { c.Limits.Connections = -1 }},
		{"at least 1048576", func(c *Config) { c.Limits.DurableBytes = 1000 }},
		{"handshake time", func(c *Config) { c.Limits.Handshake = -1 }},
		{"0 means never", func(c *Config) { c.Limits.Idle = -1 }},
	} {
		c := good
		tc.change(&c)
		err := c.Validate()
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%q: %v", tc.say, err)
		}
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: New: %v", tc.say, err)
		}
	}
}

func TestParseRDMAMode(t *testing.T) {
	for _, m := range []RDMAMode{RDMAAuto, RDMAOff, RDMARequire} {
		if got, err := ParseRDMAMode(m.String()); got != m || err != nil {
			t.Error(got, err)
		}
	}
	if _, err := ParseRDMAMode("on"); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

func TestRealStartFailures(t *testing.T) {
	used := serve(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Config){
		"port in use":        func(c *Config) { c.Listen = used.Addr().String() },
		"store is a file":    func(c *Config) { c.Dir = file },
		"bad durable option": func(c *Config) { c.Durable.Policy = 9 },
		"http port in use":   func(c *Config) { c.HTTP = used.Addr().String() },
		"long socket path":   func(c *Config) { c.Socket = "/tmp/" + strings.Repeat("x", 200) },
	} {
		cfg := testConfig(t)
		change(&cfg)
		files := openFiles(t)
		s, err := New(cfg)
		if err == nil {
			t.Errorf("%s: started", what)
			s.Shutdown(context.Background())
			continue
		}
		t.Logf("%s: %v", what, err)
		if n := openFiles(t); n > files {
			t.Errorf("%s: %d descriptors left open", what, n-files)
		}
	}
}

func TestRealHTTP(t *testing.T) {
	s := serve(t, func(c *Config) { c.HTTP = "127.0.0.1:0"; c.Registerer = nil })
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 5000)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		r, err := client.Get("http://" + s.HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(path); code != 200 || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	_, body := get("/metrics")
	node := `{node="` + s.Addr().String() + `"}`
	for _, want := range []string{
		"rmatail_node_append_bytes_total" + node + " 5000", "rmatail_node_connections" + node + " 1", "rmatail_node_panics_total" + node + " 0",
		"rmatail_node_requests_total{node=\"" + s.Addr().String() + "\",op=\"Append\"}", "rmatail_producer_append_bytes_total 5000",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if code, body := get("/"); code != 200 || !strings.Contains(body, "<title>rmatail") {
		t.Errorf("/: %d %.100q", code, body)
	}
	if code, _ := get("/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
	s.closing.Store(true)
	if code, _ := get("/readyz"); code != 503 {
		t.Errorf("/readyz of a node that goes down: %d", code)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("/healthz of a node that goes down: %d", code)
	}
}

func TestMetricsLintAndTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	serve(t, func(c *Config) { c.Registerer = reg })
	serve(t, func(c *Config) { c.Registerer = reg })
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n, err := testutil.GatherAndCount(reg, "rmatail_node_connections"); n != 2 || err != nil {
		t.Errorf("%d nodes in the metrics, %v", n, err)
	}
}

func TestMetricsEndWithTheNode(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := serve(t, func(c *Config) { c.Registerer = reg })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(reg, "rmatail_node_connections"); n != 0 || err != nil {
		t.Errorf("%d nodes in the metrics after shutdown, %v", n, err)
	}
}

func TestRealExpiredChunksAreEvicted(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Arena.TTL, c.Arena.EvictFrom, c.EvictEvery, c.Heartbeat = time.Millisecond, 1e-9, 5*time.Millisecond, time.Hour
	})
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 100_000)
	eventually(t, "no extent is left", func() bool { return s.Stats().Arena.Extents.Used == 0 })
}

func TestRealRetention(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Durable.SegmentBytes, c.Durable.RetainBytes, c.RetainEvery = 10_000, 20_000, 5*time.Millisecond
	})
	store := durable.NewRemote(dial(t, s))
	appendPattern(t, store, shardA, 0, 100_000)
	eventually(t, "old segments are gone", func() bool { return s.Stats().SegmentBytesRemoved > 50_000 })
	info, err := store.Stat(t.Context(), shardA.String())
	if err != nil || info.First == 0 || info.Length != 100_000 || info.Length-info.First < 20_000 {
		t.Fatalf("%+v, %v", info, err)
	}
	var gone *wire.Error
	if _, err := store.ReadAt(t.Context(), shardA.String(), 0, make([]byte, 10)); !errors.As(err, &gone) || gone.Status != wire.StatusOutOfRetention || gone.Arg0 < info.First {
		t.Errorf("read of what is gone: %v", err)
	}
	got := make([]byte, 20_000)
	if _, err := store.ReadAt(t.Context(), shardA.String(), 80_000, got); err != nil || !bytes.Equal(got, pattern(80_000, len(got))) {
		t.Errorf("what is kept: %v", err)
	}
	appendPattern(t, store, shardA, 100_000, 130_000)
}

func TestPrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "own")
	for range 2 { // made, then found
		if err := privateDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := privateDir(dir); !errors.Is(err, ErrSocket) {
		t.Errorf("a directory that others can enter: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := privateDir(link); !errors.Is(err, ErrSocket) {
		t.Errorf("a symbolic link: %v", err)
	}
}

func TestRealHugePagesAndMLockSayTheFix(t *testing.T) {
	cfg := testConfig(t)
	cfg.Arena.HugePages = chunkstore.HugePagesOn
	s, err := New(cfg)
	if err == nil {
		t.Log("this host has huge pages reserved")
		s.Shutdown(context.Background())
		return
	}
	if !strings.Contains(err.Error(), "turn") {
		t.Errorf("no fix in %v", err)
	}
}
