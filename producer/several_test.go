package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// severalRig is an Appender of n shards; delay is asked by each shard's sink.
func severalRig(t testing.TB, n int, delay func(shard int), change func(*Config)) (*Appender, []*fakeLog) {
	t.Helper()
	var cfg Config
	var logs []*fakeLog
	for i := range n {
		log := newFakeLog(new(trace))
		logs = append(logs, log)
		target := Target{layout.Shard{Stream: "logs", Number: uint32(i)}, &slowLog{log, func(context.Context) { delay(i) }}, log.ReadAt}
		if i == 0 {
			cfg.Shard, cfg.Log, cfg.ReadTail = target.Shard, target.Log, target.ReadTail
		} else {
			cfg.More = append(cfg.More, target)
		}
	}
	if change != nil {
		change(&cfg)
	}
	a, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a, logs
}

// Batches go to all shards at once. In each of them the records are in order, and
// lie where their Acks say.
func TestSeveralShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, logs := severalRig(t, 4, func(int) { time.Sleep(10 * time.Millisecond) }, nil)
		defer mustClose(t, a)
		began := time.Now()
		var acks []Ack
		for i := range 4 * 5 * 64 {
			acks = append(acks, mustAppend(t, a, fmt.Sprintf("%04d;", i)))
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 60*time.Millisecond {
			t.Errorf("20 batches of 10 ms into 4 shards took %v", took)
		}
		for i, k := range acks {
			pos, err := k.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := string(logs[k.Shard().Number].mu.bytes[pos:][:5]); got != fmt.Sprintf("%04d;", i) {
				t.Errorf("record %d: %q at %d of %v", i, got, pos, k.Shard())
			}
		}
		for i, l := range logs {
			if n := len(l.mu.bytes); n < 4*64*5 {
				t.Errorf("shard %d has %d bytes", i, n)
			}
			last := ""
			for r := range strings.SplitSeq(strings.TrimSuffix(string(l.mu.bytes), ";"), ";") {
				if r <= last {
					t.Errorf("shard %d: record %s behind %s", i, r, last)
				}
				last = r
			}
		}
	})
}

// A shard whose sink hangs holds up the batch that it has, and nothing else.
func TestSlowShardHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, logs := severalRig(t, 3, func(shard int) {
			if shard == 1 {
				time.Sleep(30 * time.Second)
			}
			time.Sleep(time.Millisecond)
		}, nil)
		began := time.Now()
		for range 100 * 64 {
			mustAppend(t, a, "0123456789")
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("6,400 records took %v beside a shard that hangs", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush past the shard that hangs: %v", err)
		}
		if s := a.Stats(); s.QueueRecords != 0 || s.Records < 6400-64 {
			t.Errorf("%d records wait, %d are durable", s.QueueRecords, s.Records)
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		mustClose(t, a)
		sum := 0
		for _, l := range logs {
			sum += len(l.mu.bytes)
		}
		if sum != 64000 || len(logs[1].mu.bytes) > 640 {
			t.Errorf("%d bytes in all, %d in the shard that hung", sum, len(logs[1].mu.bytes))
		}
	})
}

// Idle seats do not tear a batch apart that producers who come back are filling.
func TestLingerOfSeveralShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, logs := severalRig(t, 4, func(int) { time.Sleep(10 * time.Millisecond) }, func(c *Config) { c.Heartbeat = time.Hour })
		defer mustClose(t, a)
		take := func() (sizes []string) {
			for _, l := range logs {
				sizes = append(sizes, appends(l)...)
			}
			return sizes
		}
		var all []Ack // a batch each, to keep all seats busy, and one that forms behind them
		for range 4 {
			all = append(all, mustAppend(t, a, "1"))
			synctest.Wait()
		}
		for range 20 {
			all = append(all, mustAppend(t, a, "22"))
		}
		var wg sync.WaitGroup
		for _, k := range all[4:] {
			wg.Go(func() {
				<-k.Done()
				time.Sleep(time.Millisecond)
				mustAppend(t, a, "333")
			})
		}
		wg.Wait()
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := take(); len(got) != 6 {
			t.Errorf("batches of %v bytes, want 4 of 1, 40 and 60", got)
		}
	})
}

func TestSeveralShardsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, logs := severalRig(t, 3, func(int) { time.Sleep(time.Second) }, nil)
		if _, err := a.AppendAt(t.Context(), 0, []byte("x")); !errors.Is(err, ErrConfig) {
			t.Errorf("an offset: %v", err)
		}
		for range 1000 {
			mustAppend(t, a, "record;")
		}
		if err := a.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustClose(t, a)
		sum := 0
		for i, l := range logs {
			sum += len(l.mu.bytes)
			if !l.mu.info.Sealed || !l.mu.closed {
				t.Errorf("shard %d sealed %v, closed %v", i, l.mu.info.Sealed, l.mu.closed)
			}
		}
		if sum != 7000 {
			t.Errorf("%d bytes", sum)
		}
	})
}

// Another writer of one shard ends the Appender of all of them.
func TestSeveralShardsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, logs := severalRig(t, 2, func(int) { time.Sleep(time.Millisecond) }, nil)
		defer mustClose(t, a)
		logs[0].grow([]byte("somebody else"))
		logs[1].grow([]byte("somebody else"))
		if _, err := mustAppend(t, a, "x").Wait(t.Context()); !errors.Is(err, ErrFenced) {
			t.Error(err)
		}
		if _, err := a.Append(t.Context(), []byte("x")); !errors.Is(err, ErrFenced) {
			t.Error(err)
		}
	})
}

// A full disk below one shard fails the batch that it has taken; others do not follow
// it there, though it is free at once.
func TestSeveralShardsOneFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, logs := severalRig(t, 2, func(int) { time.Sleep(time.Millisecond) }, nil)
		defer mustClose(t, a)
		logs[1].mu.fail = func(uint64, []byte) error { return &wire.Error{Status: wire.StatusFull} }
		var acks []Ack
		for range 20 * 64 {
			acks = append(acks, mustAppend(t, a, "record;"))
		}
		durable := 0
		for _, k := range acks {
			switch _, err := k.Wait(t.Context()); {
			case err == nil && k.Shard().Number == 0:
				durable++
			case !errors.Is(err, wire.ErrFull) || k.Shard().Number != 1:
				t.Fatalf("%v: %v", k.Shard(), err)
			}
		}
		if got := bytes.Count(logs[0].mu.bytes, []byte(";")); got != durable || len(logs[1].mu.bytes) > 0 || durable < 19*64 {
			t.Errorf("%d records are durable, %d acknowledged", got, durable)
		}
	})
}

// A burst calls as many seats as it has batches.
func TestBurstCallsAllSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := severalRig(t, 4, func(int) { time.Sleep(10 * time.Millisecond) }, limits(100, 1))
		defer mustClose(t, a)
		for range 3 {
			synctest.Wait()
			began := time.Now()
			for range 4 {
				mustAppend(t, a, "x")
			}
			if err := a.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != 10*time.Millisecond {
				t.Errorf("4 batches of 10 ms for 4 idle seats took %v", took)
			}
			time.Sleep(time.Second)
		}
	})
}

// A seat that has lingered and is at work lets another one have what comes next.
func TestLingeredSeatIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Int64
		a, _ := severalRig(t, 2, func(int) { time.Sleep(10*time.Millisecond + time.Duration(hang.Swap(0))) }, nil)
		defer mustClose(t, a)
		mustAppend(t, a, "1")
		mustAppend(t, a, "2")
		synctest.Wait()
		for range 3 { // one batch of three behind them
			mustAppend(t, a, "3")
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		hang.Store(int64(time.Minute))
		mustAppend(t, a, "lingers, then hangs")
		time.Sleep(5 * time.Millisecond)
		began := time.Now()
		<-mustAppend(t, a, "4").Done()
		if took := time.Since(began); took > 15*time.Millisecond {
			t.Errorf("a record took %v beside a seat that hangs", took)
		}
	})
}
