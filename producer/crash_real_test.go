package producer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/producer"
)

// crash is where a producer kills itself: at a step of its nth batch.
type crash struct {
	At    string
	Batch int
}

var crashPoints = []string{"before append", "after append", "in put", "after put", "in publish", "after publish", "after ack"}

// die kills this process as nothing else than SIGKILL can.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// doomedLog and doomedCache are a log and a cache around which the process dies.
type doomedLog struct {
	*durable.Log
	c *crash
}

func (l doomedLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	l.c.Batch--
	if l.c.Batch == 0 && l.c.At == "before append" {
		die()
	}
	end, err := l.Log.Append(ctx, off, p)
	if l.c.Batch == 0 && l.c.At == "after append" {
		die()
	}
	return end, err
}

type doomedCache struct {
	*producer.ReplicaCache
	c *crash
}

// soon dies within the time that a round to the nodes takes.
func soon() {
	d := time.Duration(rand.Int64N(int64(400 * time.Microsecond)))
	go func() {
		for began := time.Now(); time.Since(began) < d; {
		}
		die()
	}()
}

func (c doomedCache) Put(shard layout.Shard, puts []layout.Put, errs []error) {
	if c.c.Batch == 0 && c.c.At == "in put" {
		soon()
	}
	c.ReplicaCache.Put(shard, puts, errs)
	if c.c.Batch == 0 && c.c.At == "after put" {
		die()
	}
}

func (c doomedCache) Publish(p layout.Publication) error {
	if c.c.Batch == 0 && c.c.At == "in publish" {
		soon()
	}
	err := c.ReplicaCache.Publish(p)
	if c.c.Batch == 0 && c.c.At == "after publish" {
		die()
	}
	return err
}

// childWriter appends to the store until it dies, and says how far it was told
// that its records are durable.
func childWriter(what string) error {
	var s spec
	if err := json.Unmarshal([]byte(what), &s); err != nil {
		return err
	}
	source, err := s.source()
	if err != nil {
		return err
	}
	w, err := openWriter(context.Background(), source, s.Dir, &s.Crash)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	fmt.Println("ready")
	for {
		at := w.length
		if err := w.append(context.Background(), 1+rng.IntN([]int{100, 5000, 90_000}[rng.IntN(3)])); err != nil {
			return err
		}
		fmt.Printf("%d %d\n", at, w.length)
		if s.Crash.Batch <= 0 && s.Crash.At == "after ack" {
			die()
		}
	}
}

// storeWriter is a producer that has the store itself.
type storeWriter struct {
	dir         *durable.Dir
	cache       *producer.ReplicaCache
	a           *producer.Appender
	incarnation uint64
	length      uint64
}

func openWriter(ctx context.Context, source cluster.Source, dir string, c *crash) (w *storeWriter, err error) {
	w = &storeWriter{}
	if w.dir, err = durable.Open(dir, durable.Options{Policy: durable.Never}); err != nil {
		return nil, err
	}
	log, err := w.dir.Log(shard.String())
	if err != nil {
		return nil, errors.Join(err, w.dir.Close())
	}
	w.length, w.incarnation = log.Info().Length, log.Info().Incarnation
	w.cache, err = producer.NewReplicaCache(producer.ReplicaConfig{Source: source, Store: w.dir, Owner: fmt.Sprint("process ", os.Getpid()), Timeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	w.a, err = producer.Open(ctx, producer.Config{
		Shard: shard, Log: doomedLog{log, c}, Cache: doomedCache{w.cache, c}, Heartbeat: 100 * time.Millisecond,
		ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
			return w.dir.ReadAt(ctx, shard.String(), pos, p)
		},
	})
	return w, err
}

func (w *storeWriter) append(ctx context.Context, n int) error {
	ack, err := w.a.Append(ctx, record(w.length, n))
	if err != nil {
		return err
	}
	pos, err := ack.Wait(ctx)
	if err == nil && pos != w.length {
		err = fmt.Errorf("position %d, want %d", pos, w.length)
	}
	w.length += uint64(n)
	return err
}

func (w *storeWriter) close(ctx context.Context) error {
	return errors.Join(w.a.Close(ctx), w.cache.Close(), w.dir.Close())
}

// TestRealProducerKilled kills a producer between any two steps of a batch; another
// takes over: what was acknowledged is there, the caches hold right bytes and the
// length, and the lease is the new one's.
func TestRealProducerKilled(t *testing.T) {
	s := newRealSite(t, 3, "")
	defer s.end()
	sp := spec{Dir: s.dir}
	for _, n := range s.view.Nodes {
		sp.Addrs = append(sp.Addrs, n.Addr)
	}
	source, err := sp.source()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	deaths, ahead := 0, 0
	for range 2 {
		for _, at := range crashPoints {
			sp.Crash = crash{At: at, Batch: 1 + rand.IntN(6)}
			acked := killedWriter(t, sp)
			deaths++
			w, err := openWriter(ctx, source, s.dir, &crash{})
			if err != nil {
				t.Fatalf("taking over after a death %s: %v", at, err)
			}
			s.hash = shard.Hash(w.incarnation)
			if w.length < acked {
				t.Fatalf("death %s: %d bytes were acknowledged, %d are there", at, acked, w.length)
			}
			if w.length > acked {
				ahead++
			}
			checkStore(t, w)
			eventually(t, "the length that was found is published", func() error { return s.check(w.length, w.length, 0, 3) })
			for range 3 {
				if err := w.append(ctx, 1+rand.IntN(20_000)); err != nil {
					t.Fatalf("append after a death %s: %v", at, err)
				}
			}
			eventually(t, "the caches have what was appended", func() error { return s.check(max(w.length, 1)-1, w.length, 3, 3) })
			if err := w.close(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("report: producer: killed %d times at %d steps of a batch, %d times with bytes durable that were not acknowledged; 0 lost, 0 wrong", deaths, len(crashPoints), ahead)
}

// killedWriter runs a producer until it dies, and returns the end of what it was
// told to be durable.
func killedWriter(t *testing.T, sp spec) (acked uint64) {
	t.Helper()
	what, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asWriter+"="+string(what))
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var from, to uint64
		if n, _ := fmt.Sscanf(lines.Text(), "%d %d", &from, &to); n == 2 {
			acked = to
		}
	}
	_ = cmd.Wait() // says how it died, as does ProcessState
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the producer was to kill itself %s, and ended with %v: %s", sp.Crash.At, cmd.ProcessState, errs.String())
	}
	return acked
}

// checkStore compares all that is durable.
func checkStore(t *testing.T, w *storeWriter) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for pos := uint64(0); pos < w.length; {
		n, err := w.dir.ReadAt(t.Context(), shard.String(), pos, buf[:min(uint64(len(buf)), w.length-pos)])
		if n == 0 {
			t.Fatalf("read at %d of %d: %v", pos, w.length, err)
		}
		if string(buf[:n]) != string(record(pos, n)) {
			t.Fatalf("wrong durable bytes in [%d, %d)", pos, pos+uint64(n))
		}
		pos += uint64(n)
	}
}
