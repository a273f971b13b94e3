package logging

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// maxMessages bounds the table of a limiter. Messages are constants of the
// program, so that it is never reached; further ones share one entry.
const maxMessages = 1024

// messageKey tells messages apart. Attributes would not: a limit that a changing
// address gets around is none.
type messageKey struct {
	level   slog.Level
	message string
}

// limiter counts messages within a period.
type limiter struct {
	most int // of one message; negative: no limit
	held atomic.Uint64
	mu   struct {
		sync.Mutex
		seen map[messageKey]int // in this period
	}
}

func newLimiter(most int) *limiter {
	l := &limiter{most: most}
	l.mu.seen = make(map[messageKey]int)
	return l
}

// allow counts a message, and says whether it is within the limit.
func (l *limiter) allow(level slog.Level, message string) bool {
	if l.most < 0 || level < slog.LevelInfo {
		return true
	}
	k := messageKey{level, message}
	l.mu.Lock()
	n, known := l.mu.seen[k]
	if !known && len(l.mu.seen) >= maxMessages {
		k = messageKey{slog.LevelWarn, "(messages beyond the first 1,024)"}
		n = l.mu.seen[k]
	}
	l.mu.seen[k] = n + 1
	l.mu.Unlock()
	if n < l.most {
		return true
	}
	l.held.Add(1)
	return false
}

// heldBack is how often a message was held back in a period.
type heldBack struct {
	messageKey
	times int
}

// turn begins the next period, and returns what was held back in the last one,
// most first.
func (l *limiter) turn() (held []heldBack) {
	l.mu.Lock()
	for k, n := range l.mu.seen {
		if n > l.most && l.most >= 0 {
			held = append(held, heldBack{k, n - l.most})
		}
	}
	clear(l.mu.seen)
	l.mu.Unlock()
	slices.SortFunc(held, func(a, b heldBack) int {
		return cmp.Or(cmp.Compare(b.times, a.times), cmp.Compare(a.message, b.message))
	})
	return held
}

// limited asks the limiter before the next handler.
type limited struct {
	next slog.Handler
	*limiter
}

func (h *limited) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *limited) Handle(ctx context.Context, r slog.Record) error {
	if !h.allow(r.Level, r.Message) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limited{h.next.WithAttrs(attrs), h.limiter}
}

func (h *limited) WithGroup(name string) slog.Handler {
	return &limited{h.next.WithGroup(name), h.limiter}
}
