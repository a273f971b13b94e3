package service

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/server/logging"
)

// lines is the logging of a phase.
type lines struct {
	phase Phase
	log   *slog.Logger
	file  *os.File
	logs  *logging.Logs // nil: not with these paths

	inHandlers, inLogging atomic.Int64 // ns
}

// openLines opens the logging of a phase. Its file is made in dir.
func openLines(p Phase, dir string) (*lines, error) {
	l := &lines{phase: p, log: slog.New(slog.NewTextHandler(nowhere{}, &slog.HandlerOptions{Level: slog.LevelError}))}
	if p.Path == Nowhere {
		return l, nil
	}
	f, err := os.CreateTemp(dir, "rmatail-bench-*.log")
	if err != nil {
		return nil, err
	}
	l.file = f
	if p.Path == Sync {
		if p.Format == "json" {
			l.log = slog.New(slog.NewJSONHandler(f, nil))
		} else {
			l.log = slog.New(slog.NewTextHandler(f, nil))
		}
		return l, nil
	}
	cfg := logging.Config{Out: f, Format: logging.Format(p.Format)}
	if p.Path == Async {
		cfg.PerMessage = -1
	}
	if l.logs, err = logging.New(cfg); err != nil {
		l.close()
		return nil, err
	}
	l.log = l.logs.Logger()
	return l, nil
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// request logs the lines of one read.
func (l *lines) request(client int, off uint64, n uint32) {
	if l.phase.Lines == 0 {
		return
	}
	began := time.Now()
	ctx, level := context.Background(), l.phase.lineLevel()
	for i := range l.phase.Lines {
		if l.phase.Calls == Guarded && !l.log.Enabled(ctx, level) {
			continue
		}
		l.log.Log(ctx, level, "row of a reply", "client", client, "row", i, "offset", off, "bytes", n)
	}
	l.inLogging.Add(time.Since(began).Nanoseconds())
}

// reset forgets the time of the warming up.
func (l *lines) reset() {
	l.inHandlers.Store(0)
	l.inLogging.Store(0)
}

func (l *lines) stats() logging.Stats {
	if l.logs == nil {
		return logging.Stats{}
	}
	return l.logs.Stats()
}

// close removes the file. What is not yet written is not worth the time.
func (l *lines) close() {
	if l.logs != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = l.logs.Close(ctx)
	}
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Remove(l.file.Name())
	}
}
