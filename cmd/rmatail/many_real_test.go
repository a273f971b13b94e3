package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/watch"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// TestRealTroubleAmongManyShards: of 240 shards the last by name was taken over by a
// writer that was killed. What the page gets, top, stat and the metrics tell it within a minute, and go on telling
// it when the lease has run out; no other shard is blamed.
func TestRealTroubleAmongManyShards(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir(), "--policy", "never", "--http", "127.0.0.1:0", "--arena", "64MiB")
	const shards = 240
	fill(t, n.addr, shards)
	must(t, strings.NewReader("one line\n"), "append", "--server", n.addr, "zz/0")
	look := func() (f watch.Frame, zz watch.Shard) {
		t.Helper()
		r := must(t, nil, "top", "--server", n.addr, "--once", "--json")
		if err := json.Unmarshal([]byte(r.stdout), &f); err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Shards {
			if s.Name == "zz/0000" {
				zz = s
			}
		}
		return f, zz
	}
	eventually(t, "all shards, fine", func() bool {
		f, zz := look()
		fine := 0
		for _, s := range f.Shards {
			if s.State == cause.Fine {
				fine++
			}
		}
		return len(f.Shards) == shards+1 && fine == len(f.Shards) && zz.Length > 0
	})
	takeLease(t, n.addr, "zz/0000", "a writer that was killed", 8*time.Second)
	killed := time.Now()
	told := func(what string, want func(watch.Shard) bool) {
		t.Helper()
		eventually(t, what, func() bool {
			f, zz := look()
			for _, s := range f.Shards {
				if s.State != cause.Fine && s.Name != "zz/0000" {
					t.Errorf("%s is blamed: %v, %s", s.Name, s.State, s.Why)
				}
			}
			return zz.State == cause.ProducerStopped && !zz.Ended && want(zz)
		})
	}
	told("the producer that stopped", func(s watch.Shard) bool { return true })
	took := time.Since(killed)
	if took > time.Minute {
		t.Errorf("told after %v", took)
	}
	told("it when the lease has run out", func(s watch.Shard) bool { return s.Writer == "" })
	t.Logf("report: the producer of one shard of %d was silent: told after %.1f s", shards+1, took.Seconds())

	r := must(t, nil, "stat", "--server", n.addr, "zz/0")
	if !strings.Contains(r.stdout, "producer_stopped") {
		t.Errorf("stat of the shard says\n%s", r.stdout)
	}
	r = must(t, nil, "top", "--server", n.addr, "--once")
	if !strings.Contains(r.stdout, "! zz/0000 producer stopped: ") {
		t.Errorf("top says\n%s", r.stdout)
	}
	resp, err := http.Get("http://" + n.ready.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), `shard="others",state="producer_stopped"} 1`) {
		t.Errorf("the metrics do not tell it: %v", err)
	}
}

// fill appends a line to each of so many shards.
func fill(t *testing.T, addr string, shards int) {
	t.Helper()
	c, err := wire.Dial(t.Context(), addr, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	store := durable.NewRemote(c)
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				if _, _, err := store.Append(ctx, fmt.Sprintf("many/%04d", i), wire.NoOffset, []byte("a line\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range shards {
		next <- i
	}
	close(next)
	all.Wait()
}
