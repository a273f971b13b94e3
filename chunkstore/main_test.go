package chunkstore

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a settable time. It is not safe for concurrent use.
type clock struct{ t time.Time }

func newClock() *clock                   { return &clock{time.Unix(1_700_000_000, 0)} }
func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func newArena(t testing.TB, cfg Config) *Arena {
	t.Helper()
	if cfg.Bytes == 0 {
		cfg.Bytes = oneSet
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// oneSet is the smallest arena: one set of 16 ways in each table.
const oneSet = 1130496
