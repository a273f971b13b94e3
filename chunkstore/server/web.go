package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rmatail/rmatail/chunkstore/server/page"
)

const (
	// HTTPAuto as Config.HTTP is DefaultHTTP, or no HTTP at all if another process of
	// this host has that address.
	HTTPAuto = "auto"
	// DefaultHTTP is an address of this host alone: page and metrics name shards,
	// nodes and writers, and there is no authentication unless Config.HTTPAdmit says so.
	// From elsewhere it is reached by `ssh -L 7472:127.0.0.1:7472 HOST`.
	DefaultHTTP = "127.0.0.1:7472"
)

// web is the HTTP side: a page for people, metrics for a scraper, health for a
// supervisor, profiles for a developer.
type web struct {
	listener net.Listener
	server   *http.Server
	page     *page.Page
	log      *slog.Logger
}

// startHTTP takes the address; requests are answered from Serve on.
func (s *Server) startHTTP() error {
	l, err := s.listenHTTP()
	if err != nil || l == nil {
		return err
	}
	p, err := page.New(page.Config{Snapshot: s.look, Idle: s.lookAway, Panicked: func(v any) { _ = s.panicked(v) }})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.web = &web{listener: l, page: p, log: s.log, server: &http.Server{
		// The longest answer is a profile of pprofMax.
		Handler: s.handler(l.Addr(), p), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: pprofMax + 10*time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}}
	s.closers.add("http", func() error {
		p.Close()
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

// listenHTTP takes the address; nil: there is to be none.
func (s *Server) listenHTTP() (net.Listener, error) {
	addr := s.cfg.HTTP
	switch addr {
	case "":
		return nil, nil
	case HTTPAuto:
		addr = DefaultHTTP
	}
	addr, sealed := strings.CutPrefix(addr, "https://")
	l, err := net.Listen("tcp", addr)
	if s.cfg.HTTP == HTTPAuto && errors.Is(err, syscall.EADDRINUSE) {
		s.log.Info("no page, metrics and health: the address is in use; give this node one of its own", "http", addr)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	switch g := s.httpGuard(l.Addr()); {
	case g.hidden():
		s.log.Warn("page and metrics are shown to nobody: clients are asked who they are, and there is no token for HTTP (--http-token)", "http", l.Addr().String())
	case !g.loopback && g.admit == nil:
		s.log.Warn("page and metrics are shown to whoever reaches them: set a token (--http-token), or a loopback address", "http", l.Addr().String())
	case !g.loopback && !sealed:
		s.log.Warn("the token for HTTP travels in the clear: put https:// before the address (--http), or a proxy before it", "http", l.Addr().String())
	}
	l = &httpListener{Listener: l}
	if sealed {
		l = tls.NewListener(l, s.cfg.Guard.PageTLS())
	}
	return l, nil
}

// handler is everything that is served at an address.
func (s *Server) handler(at net.Addr, p *page.Page) http.Handler {
	g := s.httpGuard(at)
	inner := http.NewServeMux()
	inner.Handle("/", p)
	if m, ok := s.cfg.Registerer.(prometheus.Gatherer); ok {
		inner.Handle("GET /metrics", promhttp.HandlerFor(m, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4}))
	}
	inner.Handle("/debug/pprof/", g.profiles(newProfiles()))
	mux := http.NewServeMux()
	mux.Handle("/", g.protect(inner))
	// Supervisors ask under any name, and have no token.
	health := newHealth(s)
	mux.HandleFunc("GET /healthz", health.alive)
	mux.HandleFunc("GET /readyz", health.ready)
	return mux
}

func (s *Server) httpGuard(at net.Addr) *guard {
	return &guard{loopback: isLoopback(at), asked: s.cfg.Guard != nil, admit: s.cfg.HTTPAdmit}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// serve answers until close.
func (w *web) serve() {
	if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
		w.log.Error("http ended", "err", err)
	}
}

// close finishes the answers under way, as far as ctx allows.
func (w *web) close(ctx context.Context) error {
	w.page.Close() // its streams never end by themselves
	if err := w.server.Shutdown(ctx); err != nil {
		return errors.Join(err, w.server.Close())
	}
	return nil
}

// HTTPAddr is the address of the page, /metrics, /healthz and /readyz; nil: none.
func (s *Server) HTTPAddr() net.Addr {
	if s.web == nil {
		return nil
	}
	return s.web.listener.Addr()
}
