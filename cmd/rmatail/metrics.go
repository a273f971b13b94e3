package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics serves those of a command at an address, until close.
type metrics struct {
	registry *prometheus.Registry
	server   *http.Server
	ended    chan struct{}
}

func serveMetrics(p *process, addr string) (*metrics, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w; choose another --http", err)
	}
	m := &metrics{registry: prometheus.NewRegistry(), ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(p.quiet.Handler(), slog.LevelDebug)}
	go func() {
		defer close(m.ended)
		if err := m.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("metrics ended", "err", err)
		}
	}()
	p.log.Info("metrics", "http", l.Addr().String())
	return m, nil
}

func (m *metrics) close() {
	m.server.Close() // closes a listener: there is nothing to tell
	<-m.ended
}
