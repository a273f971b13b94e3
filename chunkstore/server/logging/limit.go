package logging

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// maxMessages bounds the table of a limiter, but for a few more that come in the
// same moment. Messages are constants of the program, so that it is never reached;
// further ones share one entry.
const maxMessages = 1024

// messageKey tells messages apart. Attributes would not: a limit that a changing
// address gets around is none.
type messageKey struct {
	level   slog.Level
	message string
}

// limiter counts messages within a period. What is held back costs no lock: the
// one moment in which a limit matters is that in which many goroutines say the
// same.
type limiter struct {
	most  int // of one message; negative: no limit
	held  atomic.Uint64
	known atomic.Int64 // entries of seen
	seen  sync.Map     // messageKey -> *atomic.Int64, times in this period
	rest  atomic.Int64 // the same of all messages that found the table full
}

func newLimiter(most int) *limiter { return &limiter{most: most} }

// allow counts a message, and says whether it is within the limit.
func (l *limiter) allow(level slog.Level, message string) bool {
	if l.most < 0 || level < slog.LevelInfo {
		return true
	}
	if l.times(messageKey{level, message}).Add(1) <= int64(l.most) {
		return true
	}
	l.held.Add(1)
	return false
}

func (l *limiter) times(k messageKey) *atomic.Int64 {
	if n, ok := l.seen.Load(k); ok {
		return n.(*atomic.Int64)
	}
	if l.known.Load() >= maxMessages {
		return &l.rest
	}
	n, there := l.seen.LoadOrStore(k, new(atomic.Int64))
	if !there {
		l.known.Add(1)
	}
	return n.(*atomic.Int64)
}

// heldBack is how often a message was held back in a period.
type heldBack struct {
	messageKey
	times int64
}

// turn begins the next period, and returns what was held back in the last one,
// most first.
func (l *limiter) turn() (held []heldBack) {
	if l.most < 0 {
		return nil
	}
	note := func(k messageKey, n *atomic.Int64) {
		if over := n.Swap(0) - int64(l.most); over > 0 {
			held = append(held, heldBack{k, over})
		}
	}
	l.seen.Range(func(k, n any) bool {
		note(k.(messageKey), n.(*atomic.Int64))
		return true
	})
	note(messageKey{slog.LevelWarn, "(messages beyond the first 1,024)"}, &l.rest)
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
