package reader

import (
	"testing"
	"time"
)

// TestWatchPace: news that comes as often as pages may be asked for, or more seldom, does
// not wait; what comes more often is taken that often, and of many bytes more seldom.
func TestWatchPace(t *testing.T) {
	const least = time.Millisecond
	for _, c := range []struct {
		name        string
		every       time.Duration // news comes
		bytes       uint64        // each time
		taken, rest time.Duration // how often it is taken, and the longest rest
	}{
		{"seldom", 20 * time.Millisecond, 200, 20 * time.Millisecond, 0},
		{"seldom and much", 20 * time.Millisecond, 64 << 10, 20 * time.Millisecond, 0},
		{"as often as may be", least, 1000, least, 0},
		{"more often", 100 * time.Microsecond, 200, least, least},
		{"more often and much", 500 * time.Microsecond, 8 << 10, watchGap, watchGap},
	} {
		var w watch
		begin := time.Unix(1, 0)
		now, seen := begin, begin
		var longest time.Duration
		const news = 1000
		for i := range news {
			now = latest(now, seen).Truncate(c.every).Add(c.every) // the first news behind what is known
			seen = now
			rest := w.advance(now, c.bytes, least)
			if now = now.Add(rest); i > 10 { // until it knows how things go
				longest = max(longest, rest)
			}
		}
		if each := now.Sub(begin) / news; each < c.taken-c.every/2-c.taken/50 || each > c.taken+c.every+c.taken/50 || longest > c.rest {
			t.Errorf("%s: news each %s, rests of up to %s; want each %s, up to %s", c.name, each, longest, c.taken, c.rest)
		}
	}
}
