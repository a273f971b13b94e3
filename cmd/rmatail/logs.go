package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rmatail/rmatail/chunkstore/server/logging"
)

// logsTimeout bounds how long the last lines may take at the end.
const logsTimeout = 2 * time.Second

// nodeLogs are the logs of a node: lines never hold it up, and SIGUSR2 switches
// between the level it was started with and debug.
type nodeLogs struct {
	*logging.Logs
	signals chan os.Signal
	done    chan struct{} // closed when the goroutine that waits for signals has ended
}

func (f logFlags) node(w io.Writer) (*nodeLogs, error) {
	l, err := logging.New(logging.Config{Out: w, Format: logging.Format(f.Format), Level: f.Level})
	if err != nil {
		return nil, err
	}
	n := &nodeLogs{Logs: l, signals: make(chan os.Signal, 1), done: make(chan struct{})}
	signal.Notify(n.signals, syscall.SIGUSR2)
	go n.toggle(f.Level)
	return n, nil
}

func (n *nodeLogs) toggle(started slog.Level) {
	defer close(n.done)
	for range n.signals {
		level := slog.LevelDebug
		if n.Level.Level() == level {
			level = max(started, slog.LevelInfo) // started with debug: info is the other one
		}
		// What is logged at debug stands between the two notes of the change.
		if level == slog.LevelDebug {
			n.changed(level)
			n.Level.Set(level)
		} else {
			n.Level.Set(level)
			n.changed(level)
		}
	}
}

func (n *nodeLogs) changed(level slog.Level) {
	n.Logger().Log(context.Background(), max(level, slog.LevelInfo), "log level changed", "level", level)
}

func (n *nodeLogs) close() error {
	signal.Stop(n.signals)
	close(n.signals)
	<-n.done
	ctx, cancel := context.WithTimeout(context.Background(), logsTimeout)
	defer cancel()
	err := n.Close(ctx)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, context.DeadlineExceeded) {
		return nil // nobody is left to be told
	}
	return err
}
