package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// web is the HTTP side: metrics for a scraper, and health for a supervisor.
type web struct {
	listener net.Listener
	server   *http.Server
	log      *slog.Logger
}

// startHTTP takes the address; requests are answered from Serve on.
func (s *Server) startHTTP() error {
	if s.cfg.HTTP == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.cfg.HTTP)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	mux := http.NewServeMux()
	if g, ok := s.cfg.Registerer.(prometheus.Gatherer); ok {
		mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.closing.Load() {
			say(w, http.StatusServiceUnavailable, "shutting down")
			return
		}
		say(w, http.StatusOK, "ok")
	})
	s.web = &web{listener: l, log: s.log, server: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}}
	s.closers.add("http", func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
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
	if err := w.server.Shutdown(ctx); err != nil {
		return errors.Join(err, w.server.Close())
	}
	return nil
}

// HTTPAddr is the address of /metrics, /healthz and /readyz; nil: none.
func (s *Server) HTTPAddr() net.Addr {
	if s.web == nil {
		return nil
	}
	return s.web.listener.Addr()
}
