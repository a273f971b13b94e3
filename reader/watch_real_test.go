package reader_test

import (
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/reader"
)

// slowPoll is what a Cluster would poll by that is not told of news: a record takes
// longer than any test waits.
const slowPoll = time.Hour

// watchedFor is after how long a node answers that has no news.
const watchedFor = 250 * time.Millisecond

// TestRealWatch: over tcp a node tells of news by itself. It costs no poll interval, and
// a request for each news of a page, however many Readers of a process follow it.
func TestRealWatch(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "watch/0"}
	w.append(n, 4096)
	cfg := reader.Config{Server: n.Listen, Transport: reader.TCP, PollMin: time.Millisecond, PollMax: slowPoll}
	c, first := w.open(cfg, reader.Earliest())
	const readers = 20
	all := []*reader.Reader{first}
	for len(all) < readers {
		r, err := c.Reader(t.Context(), w.shard, reader.Earliest())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		all = append(all, r)
	}
	const records = 100
	read := func() {
		t.Helper()
		var done sync.WaitGroup
		for _, r := range all {
			done.Go(func() {
				if by, err := drain(t.Context(), r, w.pos, 10*time.Second); err != nil || by["durable"] > 0 {
					t.Errorf("%v, %v", by, err)
				}
			})
		}
		done.Wait()
	}
	for range 10 {
		w.append(n, 4096)
		read()
	}
	before := c.Stats()
	begun := time.Now()
	for range records {
		w.append(n, 4096)
		read()
	}
	took := time.Since(begun)
	after := c.Stats()
	// A length, its bytes or the place of an extent, and now and then a Reader that
	// comes too late for what has come along.
	requests, moved := after.Requests-before.Requests, after.Bytes-before.Bytes
	t.Logf("report: %d records for %d readers in %v: %d requests, %d bytes moved for %d that were written", records, readers, took.Round(time.Millisecond), requests, moved, records*4096)
	if took > records*watchedFor/2 {
		t.Errorf("%d records took %v: the node does not tell of news", records, took)
	}
	if polls := after.Polls - before.Polls; polls > records/2+uint64(20*took/time.Second) {
		t.Errorf("%d polls for %d records: the page is watched anew for each", polls, records)
	}
	if t.Failed() || requests > 10*records+uint64(20*took/time.Second) || moved > 4*records*4096 {
		t.Errorf("%d requests and %d bytes moved for %d records of 4 KiB, of %d readers", requests, moved, records, readers)
	}
}

// TestRealWatchGrows: a shard that comes to a page which is watched is followed at once,
// and so are all of several pages.
func TestRealWatchGrows(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	cfg := reader.Config{Server: n.Listen, Transport: reader.TCP, PollMin: time.Millisecond, PollMax: slowPoll}
	first := &writer{t: t, shard: "grows/0"}
	first.append(n, 10)
	c, r := first.open(cfg, reader.Earliest())
	first.read(r, 10*time.Second)
	type tailed struct {
		*writer
		r *reader.Reader
	}
	all := []tailed{{first, r}}
	for _, shard := range []string{"grows/1", "grows/127", "grows/128", "other/5"} {
		w := &writer{t: t, shard: shard}
		w.append(n, 10)
		r, err := c.Reader(t.Context(), shard, reader.Earliest())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		all = append(all, tailed{w, r})
		for _, a := range all {
			a.append(n, 100)
			a.writer.read(a.r, 10*time.Second)
		}
	}
	for _, a := range all[1:] { // and the page goes on with those that stay
		a.r.Close()
		first.append(n, 100)
		first.read(r, 10*time.Second)
	}
}
