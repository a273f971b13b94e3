package reader

import (
	"testing"
	"time"
)

// TestWatchPace: news that comes as often as pages may be asked for, or more seldom, does
// not wait; what comes more often is taken that often on average, and of many bytes more
// seldom.
func TestWatchPace(t *testing.T) {
	const least = time.Millisecond
	for _, c := range []struct {
		name    string
		every   time.Duration // news comes
		late    time.Duration // every other time
		bytes   uint64        // each time
		taken   time.Duration // how often it is taken, on average
		longest time.Duration // rest
	}{
		{"seldom", 20 * time.Millisecond, 0, 200, 20 * time.Millisecond, 0},
		{"seldom and much", 20 * time.Millisecond, 0, 64 << 10, 20 * time.Millisecond, 0},
		{"as often as may be", least, 0, 1000, least, 0},
		{"as often, now sooner, now later", least, least / 5, 1000, least, 0},
		{"more often", 100 * time.Microsecond, 0, 200, least, least},
		{"more often and much", 500 * time.Microsecond, 0, 8 << 10, watchGap / 2, watchGap / 2},
		{"more often and very much", 500 * time.Microsecond, 0, 64 << 10, watchGap, watchGap},
	} {
		var w watch
		begin := time.Unix(1, 0)
		now := begin
		var longest time.Duration
		const times = 1000
		for i := range times {
			n := now.Sub(begin)/c.every + 1 // the first news behind what is known
			rest := w.advance(begin.Add(n*c.every+n%2*c.late), c.bytes, least)
			now = begin.Add(n*c.every + rest)
			if i > 10 { // until it knows how things go
				longest = max(longest, rest)
			}
		}
		if each := now.Sub(begin) / times; each < c.taken-c.taken/20 || each > c.taken+c.every+c.taken/20 || longest > c.longest {
			t.Errorf("%s: news each %s, rests of up to %s; want each %s, up to %s", c.name, each, longest, c.taken, c.longest)
		}
	}
}
