package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

func TestConfigIsChecked(t *testing.T) {
	snapshot := func(context.Context) Sample { return Sample{} }
	for _, c := range []Config{{}, {Snapshot: snapshot, Every: time.Millisecond}, {Snapshot: snapshot, Clients: -1}, {Snapshot: snapshot, Points: -1}, {Snapshot: snapshot, Write: -1}} {
		if p, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%d clients, every %v: %v, %v", c.Clients, c.Every, p, err)
		}
	}
}

// TestAssets: what the page is made of is there, cached by its content, guarded by its
// headers, and complete: nothing is loaded from elsewhere, and no script or style is in
// the markup, which the policy would stop.
func TestAssets(t *testing.T) {
	p := start(t, Config{})
	get := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w
	}
	for path, kind := range map[string]string{"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml"} {
		w := get(path, "")
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: %d %q", path, w.Code, w.Header())
		}
		if again := get(path, w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s again: %d", path, again.Code)
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: no %s in %q", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %q", path, w.Header())
		}
		body := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "") // a name, not an address
		if found := regexp.MustCompile(`(https?:)?//[a-z]|style=|<script>|\son[a-z]+=|innerHTML|insertAdjacentHTML|document\.write|eval\(`).FindString(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
	for _, path := range []string{"/index.html", "/page.go", "/../page.go", "/x"} {
		if w := get(path, ""); w.Code != 404 && w.Code != 301 && w.Code != 307 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// start returns a Page that samples quickly, and closes it.
func start(t *testing.T, cfg Config) *Page {
	t.Helper()
	if cfg.Snapshot == nil {
		cfg.Snapshot = func(context.Context) Sample { return Sample{} }
	}
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Millisecond
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// stream is a client.
type stream struct {
	t     *testing.T
	body  interface{ Close() error }
	lines *bufio.Scanner
}

func listen(t *testing.T, url string) (*stream, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode == 200 && resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers %q", resp.Header)
	}
	return &stream{t, resp.Body, bufio.NewScanner(resp.Body)}, resp.StatusCode
}

// next returns the next event.
func (s *stream) next() (name string, data json.RawMessage) {
	s.t.Helper()
	for s.lines.Scan() {
		if n, ok := strings.CutPrefix(s.lines.Text(), "event: "); ok {
			name = n
		}
		if d, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			return name, json.RawMessage(d)
		}
	}
	s.t.Fatalf("the stream has ended: %v", s.lines.Err())
	return "", nil
}

// serve is the page with the bounds of a node's HTTP server, which must not end streams.
func serve(t *testing.T, p *Page) string {
	t.Helper()
	s := httptest.NewUnstartedServer(p)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	s.Start()
	t.Cleanup(func() {
		p.Close()
		s.Close()
	})
	return s.URL
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// TestRealOneSamplerForAll: the same samples go to all who look, in order; nobody
// looks, nothing is sampled; who comes later gets the points of before.
func TestRealOneSamplerForAll(t *testing.T) {
	var samples, idle, running atomic.Int64
	p := start(t, Config{Points: 5, Snapshot: func(context.Context) Sample {
		if running.Add(1) != 1 {
			t.Error("two samples at once")
		}
		defer running.Add(-1)
		n := samples.Add(1)
		return Sample{Frame: map[string]any{"n": n, "name": "</script>\n\nevent: x\ndata: y"}, Point: n}
	}, Idle: func() { idle.Add(1) }})
	url := serve(t, p)
	a, _ := listen(t, url)
	b, _ := listen(t, url)
	if name, data := a.next(); name != "history" || string(data) != "[]" {
		t.Errorf("first: %s %s", name, data)
	}
	b.next()
	long := time.Now().Add(400 * time.Millisecond) // beyond the server's bounds
	last := 0
	for time.Now().Before(long) || last < 20 {
		for _, s := range []*stream{a, b} {
			name, data := s.next()
			var f struct {
				N    int
				Name string
			}
			if err := json.Unmarshal(data, &f); err != nil || name != "frame" || f.Name != "</script>\n\nevent: x\ndata: y" {
				t.Fatalf("%s %s, %v", name, data, err)
			}
			if s == a && f.N <= last {
				t.Fatalf("frame %d after %d", f.N, last)
			}
			if s == a {
				last = f.N
			}
		}
	}
	a.body.Close()
	b.body.Close()
	eventually(t, "the end of sampling", func() bool { return idle.Load() == 1 })
	at := samples.Load()
	c, _ := listen(t, url)
	if samples.Load() > at+1 {
		t.Errorf("%d samples were taken while nobody looked", samples.Load()-at)
	}
	name, data := c.next()
	var points []int
	if err := json.Unmarshal(data, &points); err != nil || name != "history" || len(points) != 5 || int64(points[4]) != at {
		t.Errorf("%s %s, %v; %d samples were taken", name, data, err, at)
	}
	c.next()
}

// TestRealTooManyClients are refused, and those that look go on.
func TestRealTooManyClients(t *testing.T) {
	p := start(t, Config{Clients: 2})
	url := serve(t, p)
	a, _ := listen(t, url)
	listen(t, url)
	if _, code := listen(t, url); code != 503 {
		t.Errorf("the third of two: %d", code)
	}
	a.next()
	a.next()
	a.body.Close()
	eventually(t, "room for another", func() bool {
		s, code := listen(t, url)
		if code != 200 {
			s.body.Close()
		}
		return code == 200
	})
}

// TestRealClientThatTakesNothing is cut off, and holds up nobody meanwhile.
func TestRealClientThatTakesNothing(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	p := start(t, Config{Write: 200 * time.Millisecond, Snapshot: func(context.Context) Sample { return Sample{Frame: big} }})
	url := serve(t, p)
	stuck, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if _, err := stuck.Write([]byte("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	clients := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.mu.clients)
	}
	eventually(t, "the client", func() bool { return clients() == 1 })
	good, _ := listen(t, url)
	good.lines.Buffer(nil, 2<<20)
	for range 20 {
		good.next()
	}
	eventually(t, "the end of the client that takes nothing", func() bool {
		good.next()
		return clients() == 1
	})
}

// TestRealCloseEndsStreams, and refuses new ones.
func TestRealCloseEndsStreams(t *testing.T) {
	p := start(t, Config{Snapshot: func(ctx context.Context) Sample {
		<-ctx.Done() // one that takes for ever
		return Sample{}
	}})
	url := serve(t, p)
	a, _ := listen(t, url)
	a.next()
	p.Close()
	for a.lines.Scan() {
	}
	if _, code := listen(t, url); code != 503 {
		t.Errorf("after Close: %d", code)
	}
}

// TestRealSamplePanics: the page says that there is a bug, and goes on.
func TestRealSamplePanics(t *testing.T) {
	var samples, panics atomic.Int64
	p := start(t, Config{Panicked: func(any) { panics.Add(1) }, Snapshot: func(context.Context) Sample {
		if samples.Add(1) == 1 {
			panic("index out of range")
		}
		return Sample{Frame: "fine", Point: 1}
	}})
	s, _ := listen(t, serve(t, p))
	s.next()
	if _, data := s.next(); !strings.Contains(string(data), "index out of range") {
		t.Errorf("the first frame is %s", data)
	}
	if _, data := s.next(); string(data) != `"fine"` || panics.Load() != 1 {
		t.Errorf("then %s, %d panics", data, panics.Load())
	}
}
