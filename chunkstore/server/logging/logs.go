package logging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// ErrConfig is returned when a Config has a setting out of bounds.
var ErrConfig = errors.New("logging configuration")

// Format is how a line looks.
type Format string

// The formats of log/slog.
const (
	Text Format = "text"
	JSON Format = "json"
)

// Config says where lines go. The zero value of each field but Out means its
// default.
type Config struct {
	Out    io.Writer     // one goroutine writes, whole lines, many at a time
	Format Format        // Text
	Level  slog.Level    // at first; Info
	Buffer int           // bytes of lines that wait for Out: 1 MiB. Twice that is used. At least 4 KiB
	Every  time.Duration // 1 s: how often counts are logged, and what PerMessage is counted in
	// PerMessage is how often one message is logged in Every. 10. Negative: no limit.
	PerMessage int
}

const (
	defaultBuffer     = 1 << 20
	leastBuffer       = 4 << 10
	defaultPerMessage = 10
)

// Stats are counts since New.
type Stats struct {
	Lines   uint64 // handed to the output
	Dropped uint64 // the queue was full, or the output refused them
	Held    uint64 // over the limit of their message
}

// Logs owns the goroutine that writes. Any number of goroutines may use it.
type Logs struct {
	// Level is the lowest level that is logged. Set it at any time.
	Level *slog.LevelVar

	queue  *queue
	limit  *limiter
	logger *slog.Logger
}

// New returns Logs that write to cfg.Out until Close.
func New(cfg Config) (*Logs, error) {
	cfg.Format = cmp.Or(cfg.Format, Text)
	cfg.Buffer = cmp.Or(cfg.Buffer, defaultBuffer)
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.PerMessage = cmp.Or(cfg.PerMessage, defaultPerMessage)
	switch {
	case cfg.Out == nil:
		return nil, fmt.Errorf("%w: no output", ErrConfig)
	case cfg.Format != Text && cfg.Format != JSON:
		return nil, fmt.Errorf("%w: format %q, want text or json", ErrConfig, cfg.Format)
	case cfg.Buffer < leastBuffer:
		return nil, fmt.Errorf("%w: buffer of %d B, want at least %d", ErrConfig, cfg.Buffer, leastBuffer)
	case cfg.Every < 0:
		return nil, fmt.Errorf("%w: counts every %s", ErrConfig, cfg.Every)
	}
	l := &Logs{Level: new(slog.LevelVar), queue: newQueue(cfg.Out, cfg.Buffer), limit: newLimiter(cfg.PerMessage)}
	l.Level.Set(cfg.Level)
	plain := handler(cfg.Format, l.queue, l.Level)
	l.logger = slog.New(&limited{next: plain, limiter: l.limit})
	// The goroutine's own lines do not go through the queue: it may be full.
	own := slog.New(handler(cfg.Format, &l.queue.own, l.Level))
	go l.queue.run(cfg.Every, func() { l.report(own) })
	return l, nil
}

func handler(f Format, w io.Writer, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if f == JSON {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// Logger returns the logger; its derivatives share queue, limits and level.
func (l *Logs) Logger() *slog.Logger { return l.logger }

// Stats returns the counts now.
func (l *Logs) Stats() Stats {
	return Stats{Lines: l.queue.lines.Load(), Dropped: l.queue.dropped.Load(), Held: l.limit.held.Load()}
}

// report logs what was held back and dropped since the last report. Only the
// queue's goroutine.
func (l *Logs) report(own *slog.Logger) {
	for _, h := range l.limit.turn() {
		own.Log(context.Background(), h.level, "held back", "message", h.message, "times", h.times)
	}
	if n := l.queue.dropped.Load() - l.queue.reported; n > 0 {
		l.queue.reported += n
		own.Warn("log lines dropped: the output does not keep up; log less, or to a faster place", "lines", n)
	}
}

// Close writes what is queued and the last counts, and ends the goroutine.
// Lines that come later are dropped. When ctx ends first (an output that hangs)
// the goroutine is left to it, and ctx's error is returned; the goroutine ends when
// the output does.
func (l *Logs) Close(ctx context.Context) error {
	l.queue.close()
	select {
	case <-l.queue.done:
		return l.queue.err
	case <-ctx.Done():
		return fmt.Errorf("log output hangs with lines unwritten: %w", ctx.Err())
	}
}
