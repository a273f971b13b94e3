package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Sample is what is shown at one moment.
type Sample struct {
	Frame any // all of it
	Point any // what is kept of it for charts over time
}

// Config is what a Page is made of. Zero numbers mean their defaults.
type Config struct {
	// Snapshot takes a sample. It is called by one goroutine at a time.
	Snapshot func(ctx context.Context) Sample
	// Idle, if set, is called when nobody looks any more, by the same goroutine.
	Idle func()
	// Panicked, if set, is told what Snapshot has panicked with, by the same goroutine.
	Panicked func(value any)
	// Every is the time between samples. 1 s, at least 10 ms.
	Every time.Duration
	// Clients bounds how many may look at once; one more is refused with 503. 32.
	Clients int
	// Points bounds what is kept for charts. 300.
	Points int
	// Write bounds one write to a client, which is cut off then. 10 s.
	Write time.Duration
}

// Page serves the page. Any goroutine may use it.
type Page struct {
	cfg    Config
	mux    *http.ServeMux
	life   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // the sampler
	mu     struct {
		sync.Mutex
		closed   bool
		sampling bool
		clients  map[*client]struct{}
		points   []json.RawMessage
	}
}

// New returns a Page. Errors match ErrConfig.
func New(cfg Config) (*Page, error) {
	cfg.Every, cfg.Clients = cmp.Or(cfg.Every, time.Second), cmp.Or(cfg.Clients, 32)
	cfg.Points, cfg.Write = cmp.Or(cfg.Points, 300), cmp.Or(cfg.Write, 10*time.Second)
	switch {
	case cfg.Snapshot == nil:
		return nil, fmt.Errorf("%w: no Snapshot", ErrConfig)
	case cfg.Every < 10*time.Millisecond:
		return nil, fmt.Errorf("%w: a sample every %v, want 10ms or more", ErrConfig, cfg.Every)
	case cfg.Clients < 1 || cfg.Points < 1 || cfg.Write < 0:
		return nil, fmt.Errorf("%w: %d clients, %d points, %v for a write; leave them unset for the defaults", ErrConfig, cfg.Clients, cfg.Points, cfg.Write)
	}
	p := &Page{cfg: cfg, mux: http.NewServeMux()}
	p.life, p.cancel = context.WithCancel(context.Background())
	p.mu.clients = make(map[*client]struct{})
	p.mux.HandleFunc("GET /events", p.events)
	p.addAssets()
	return p, nil
}

// ServeHTTP answers for /, what belongs to it, and /events.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

// Close ends all event streams and the sampling, and waits for the latter. Further
// requests for events are refused.
func (p *Page) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
}
