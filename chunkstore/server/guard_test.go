package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
)

// asked is how a request for a path is answered by a handler.
func asked(h http.Handler, path string, change func(*http.Request)) int {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "localhost:7472"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

var (
	loopbackAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7472}
	otherAddr    = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7472}
)

// TestGuard: who is refused what, at which address.
func TestGuard(t *testing.T) {
	s := serve(t, func(c *Config) { c.HTTP = "127.0.0.1:0"; c.Registerer = nil })
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a token of more than 16 bytes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	admit, err := TokenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	local := s.handler(loopbackAddr, s.web.page)
	open := s.handler(otherAddr, s.web.page)
	s.cfg.HTTPAdmit = admit
	closed := s.handler(otherAddr, s.web.page)
	closedLocal := s.handler(loopbackAddr, s.web.page)
	asks := serve(t, func(c *Config) {
		c.HTTP, c.Registerer = "127.0.0.1:0", nil
		c.Guard = openGuard(t, auth.Settings{Tokens: secretFile(t, "tokens", "x "+tokenOf("x"))}, auth.Options{})
	})
	guarded, guardedLocal := asks.handler(otherAddr, asks.web.page), asks.handler(loopbackAddr, asks.web.page)
	asks.cfg.HTTPAdmit = admit
	guardedToken := asks.handler(otherAddr, asks.web.page)
	token := header("Authorization", "Bearer a token of more than 16 bytes")
	const profile = "/debug/pprof/goroutine"
	for _, c := range []struct {
		what   string
		h      http.Handler
		path   string
		change func(*http.Request)
		want   int
	}{
		{"local", local, "/", nil, 200},
		{"local", local, "/metrics", nil, 200},
		{"local", local, profile, nil, 200},
		{"local profiles", local, "/debug/pprof/", nil, 200},
		{"profiles through a proxy on the host", local, "/debug/pprof/", header("X-Forwarded-For", "127.0.0.1"), 403},
		{"profiles through another", local, profile, header("Forwarded", "for=127.0.0.1"), 403},
		{"the page through a proxy", local, "/", header("X-Forwarded-For", "10.1.2.3"), 200},
		{"profiles with a token, from elsewhere, as if from here", open, profile, header("X-Forwarded-For", "127.0.0.1"), 403},
		{"no such profile", local, "/debug/pprof/x", nil, 404},
		{"loopback by number", local, "/", host("127.0.0.1:7472"), 200},
		{"loopback by number", local, "/", host("[::1]:7472"), 200},
		{"a tunnel to another port", local, "/", host("localhost:9999"), 200},
		{"a name below localhost", local, "/", host("n1.localhost"), 200},
		{"rebound", local, "/", host("evil.example:7472"), 421},
		{"rebound", local, "/metrics", host("evil.example"), 421},
		{"rebound", local, "/events", host("localhost.evil.example"), 421},
		{"rebound", local, profile, host("10.0.0.1"), 421},
		{"rebound", local, profile, host(""), 421},
		{"health under any name", local, "/readyz", host("node1.example:7472"), 200},
		{"health under any name", local, "/healthz", host("node1.example:7472"), 200},
		{"another site", local, "/events", header("Sec-Fetch-Site", "cross-site"), 403},
		{"another site", local, profile, header("Sec-Fetch-Site", "same-site"), 403},
		{"another site frames it", local, "/", header("Sec-Fetch-Site", "cross-site"), 403},
		{"a link of another site", local, "/", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
		}, 200},
		{"its own script", local, "/metrics", header("Sec-Fetch-Site", "same-origin"), 200},
		{"from elsewhere", open, "/", host("node1:7472"), 200},
		{"from elsewhere", open, "/metrics", host("node1:7472"), 200},
		{"from elsewhere", open, profile, host("node1:7472"), 403},
		{"from elsewhere", open, "/debug/pprof/profile", host("node1:7472"), 403},
		{"from elsewhere, with a token nobody asks for", open, profile, token, 403},
		{"from elsewhere, clients are asked", guarded, "/", host("node1:7472"), 403},
		{"from elsewhere, clients are asked", guarded, "/metrics", host("node1:7472"), 403},
		{"from elsewhere, clients are asked", guarded, "/events", host("node1:7472"), 403},
		{"from elsewhere, clients are asked", guarded, profile, host("node1:7472"), 403},
		{"health, clients are asked", guarded, "/readyz", host("node1:7472"), 200},
		{"health, clients are asked", guarded, "/healthz", host("node1:7472"), 200},
		{"a token, clients are asked", guardedToken, "/metrics", token, 200},
		{"no token, clients are asked", guardedToken, "/metrics", nil, 401},
		{"local, clients are asked", guardedLocal, "/metrics", token, 200},
		{"without a token", closed, "/", nil, 401},
		{"without a token", closed, "/metrics", nil, 401},
		{"without a token", closed, "/events", nil, 401},
		{"without a token", closed, profile, nil, 401},
		{"without a token", closedLocal, profile, nil, 401},
		{"health without a token", closed, "/readyz", nil, 200},
		{"a wrong token", closed, profile, header("Authorization", "Bearer a token of more than 16 bytex"), 401},
		{"no token", closed, profile, header("Authorization", "Bearer "), 401},
		{"another scheme", closed, profile, header("Authorization", "Digest a token of more than 16 bytes"), 401},
		{"the token", closed, profile, token, 200},
		{"the token", closed, "/", token, 200},
		{"the token as a password", closed, "/metrics", func(r *http.Request) { r.SetBasicAuth("me", "a token of more than 16 bytes") }, 200},
		{"the token, rebound", closedLocal, "/", func(r *http.Request) { token(r); r.Host = "evil.example" }, 421},
	} {
		if got := asked(c.h, c.path, c.change); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.what, c.path, got, c.want)
		}
	}
	if err := os.WriteFile(file, []byte("another token, and a long one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := asked(closed, "/", token); got != 401 {
		t.Errorf("the old token: %d", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, given := range []func(*http.Request){token, header("Authorization", "Bearer another token, and a long one"), nil} {
		if got := asked(closed, "/", given); got != 401 {
			t.Errorf("without a file: %d", got)
		}
	}
}

func TestTokenFileIsChecked(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "short": "secret\n", "long": strings.Repeat("x", 5000)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := TokenFile(path); !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := TokenFile(filepath.Join(dir, "absent")); !errors.Is(err, ErrConfig) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// TestRealProfiles are what the tools read, also over longer than a request may take to
// be read, and one at a time.
func TestRealProfiles(t *testing.T) {
	s := httptest.NewUnstartedServer(newProfiles())
	s.Config.ReadTimeout = 100 * time.Millisecond
	s.Start()
	defer s.Close()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, []byte) {
		r, err := client.Get(s.URL + "/debug/pprof/" + path)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.StatusCode, b
	}
	began := time.Now()
	if code, b := get("profile?seconds=0.4"); code != 200 || len(b) < 10 || b[0] != 0x1f || b[1] != 0x8b || time.Since(began) < 400*time.Millisecond {
		t.Errorf("a profile of 0.4 s: %d, %d bytes after %v", code, len(b), time.Since(began))
	}
	if code, b := get("heap"); code != 200 || len(b) < 10 || b[0] != 0x1f {
		t.Errorf("heap: %d, %d bytes", code, len(b))
	}
	if code, b := get("goroutine?debug=1"); code != 200 || !strings.Contains(string(b), "goroutine profile") {
		t.Errorf("goroutines: %d %.100s", code, b)
	}
	if code, b := get("trace?seconds=0.1"); code != 200 || !strings.HasPrefix(string(b), "go 1.") {
		t.Errorf("trace: %d %.20q", code, b)
	}
	for _, bad := range []string{"0", "-1", "61", "1e9", "NaN", "x"} {
		if code, _ := get("profile?seconds=" + bad); code != 400 {
			t.Errorf("seconds=%s: %d", bad, code)
		}
	}
	first := make(chan int, 1)
	go func() {
		code := 409 // by one of those below
		for code == 409 {
			code, _ = get("profile?seconds=1")
		}
		first <- code
	}()
	eventually(t, "a refusal of a second profile at once", func() bool {
		code, _ := get("profile?seconds=0.01")
		return code == 409
	})
	if code := <-first; code != 200 {
		t.Errorf("the first: %d", code)
	}
}
