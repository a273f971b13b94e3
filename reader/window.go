package reader

import "time"

// windowLeast is over what time at least counts are compared; at most over twice that.
const windowLeast = 5 * time.Second

// window remembers what a count was when the window began, which moves on.
type window[T any] struct {
	old, mid     T
	oldAt, midAt time.Time
}

// roll notes what the count is now.
func (w *window[T]) roll(now time.Time, v T) {
	switch {
	case w.oldAt.IsZero():
		*w = window[T]{v, v, now, now}
	case now.Sub(w.midAt) >= windowLeast:
		*w = window[T]{w.mid, v, w.midAt, now}
	}
}

// length is how much time the window covers.
func (w *window[T]) length(now time.Time) time.Duration {
	if w.oldAt.IsZero() {
		return 0
	}
	return now.Sub(w.oldAt)
}
