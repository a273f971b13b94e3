package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// TestRealDeletedShard: a shard whose files are removed is closed within a sweep,
// so that its heartbeat ends, and the next append makes another of the same name.
func TestRealDeletedShard(t *testing.T) {
	s := serve(t, func(c *Config) { c.EvictEvery = 10 * time.Millisecond })
	remote := durable.NewRemote(dial(t, s))
	const shard = "deleted/0000"
	if _, _, err := remote.Append(t.Context(), shard, wire.NoOffset, []byte("old bytes")); err != nil {
		t.Fatal(err)
	}
	before, err := remote.Stat(t.Context(), shard)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.cfg.Dir, "deleted")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deleted shard is closed", func() bool {
		s.appenders.mu.Lock()
		defer s.appenders.mu.Unlock()
		return len(s.appenders.mu.places) == 0
	})
	pos, _, err := remote.Append(t.Context(), shard, wire.NoOffset, []byte("new"))
	if err != nil || pos != 0 {
		t.Fatalf("append after it: at %d, %v", pos, err)
	}
	after, err := remote.Stat(t.Context(), shard)
	if err != nil || after.Incarnation == before.Incarnation || after.Length != 3 {
		t.Fatalf("the shard of the same name: %+v (before %+v), %v", after, before, err)
	}
}
