package producer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// sent is one record of the model and what its producer was told.
type sent struct {
	record []byte
	queued bool
	shard  uint32
	pos    uint64
	err    error
}

// hidden reports whether a record of this fate must not be in the shard.
func (s *sent) hidden() bool {
	return s.err != nil && !errors.Is(s.err, durable.ErrUnknownOutcome)
}

// TestFates runs producers against a sink that fails, hangs and comes through late,
// with contexts that end anywhere: what was acknowledged lies where it was said to,
// in the order of each producer; what was refused or dropped is not there; nothing
// is there twice; and the published length is the durable one.
func TestFates(t *testing.T) {
	for seed := range uint64(60) {
		for _, policy := range []Policy{Block, DropNewest, DropOldest} {
			t.Run(policy.String()+"/"+strconv.FormatUint(seed, 10), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fates(t, policy, seed, 1) })
			})
			t.Run(policy.String()+"/several/"+strconv.FormatUint(seed, 10), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fates(t, policy, seed, 2+int(seed%3)) })
			})
		}
	}
}

// troubled is a log that fails, gives up and comes through late.
func troubled(seed uint64) *fakeLog {
	log := newFakeLog(new(trace))
	sink := rand.New(rand.NewPCG(seed, 98)) // of the log, under its lock
	log.mu.fail = func(_ uint64, p []byte) error {
		switch sink.IntN(12) {
		case 0:
			return &wire.Error{Status: wire.StatusFull}
		case 1: // gives up, and comes through all the same
			log.mu.late = bytes.Clone(p)
			return durable.ErrUnknownOutcome
		case 2:
			return durable.ErrUnknownOutcome
		}
		return nil
	}
	return log
}

func fates(t *testing.T, policy Policy, seed uint64, shards int) {
	rng := rand.New(rand.NewPCG(seed, uint64(policy)))
	var mu sync.Mutex // of delays
	delays := rand.New(rand.NewPCG(seed, 99))
	delay := func(context.Context) {
		mu.Lock()
		d := time.Duration(delays.IntN(3000)) * time.Microsecond
		if delays.IntN(50) == 0 {
			d = 2 * time.Second
		}
		mu.Unlock()
		time.Sleep(d)
	}
	var logs []*fakeLog
	var targets []Target
	for i := range shards {
		log := troubled(seed + uint64(i))
		logs = append(logs, log)
		targets = append(targets, Target{layout.Shard{Stream: "logs", Number: uint32(i)}, &slowLog{log, delay}, log.ReadAt})
	}
	var cache *fakeCache // of one shard, as it tells no others apart
	cfg := Config{
		Shard: targets[0].Shard, Log: targets[0].Log, ReadTail: targets[0].ReadTail, More: targets[1:], Policy: policy,
		Limits: Limits{QueueRecords: 1 + rng.IntN(40), QueueBytes: 200 + rng.IntN(2000), BatchRecords: 1 + rng.IntN(16), BatchBytes: 100 + rng.IntN(500)},
	}
	if shards == 1 {
		cache = newFakeCache(t, logs[0].trace)
		cfg.Cache = cache
	}
	if rng.IntN(2) == 0 {
		cfg.WaitForSpace = time.Second
	}
	a, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	producers := make([][]*sent, 6)
	var wg sync.WaitGroup
	for i := range producers {
		rng := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		wg.Go(func() { producers[i] = produce(a, logs, rng, uint32(i)) })
	}
	wg.Wait()
	closing, cancel := context.WithCancel(t.Context())
	if rng.IntN(3) == 0 {
		closing, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	}
	_ = a.Close(closing)
	cancel()
	mustClose(t, a)
	check(t, logs, producers)
	if n := len(logs[0].mu.bytes); cache != nil && cache.length() != uint64(n) {
		t.Errorf("published %d, durable %d", cache.length(), n)
	}
	if s := a.Stats(); s.QueueRecords != 0 || s.QueueRecordsMax > cfg.Limits.QueueRecords {
		t.Errorf("%d records are left, %d were at most", s.QueueRecords, s.QueueRecordsMax)
	}
}

// produce appends records that each name their producer and number.
func produce(a *Appender, logs []*fakeLog, rng *rand.Rand, id uint32) (all []*sent) {
	var wg sync.WaitGroup
	for n := range uint32(150) {
		s := &sent{record: bytes.Repeat([]byte{'.'}, 12+rng.IntN(60))}
		binary.LittleEndian.PutUint32(s.record, uint32(len(s.record)))
		binary.LittleEndian.PutUint32(s.record[4:], id)
		binary.LittleEndian.PutUint32(s.record[8:], n)
		all = append(all, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(20))*time.Millisecond)
		off := uint64(wire.NoOffset)
		if len(logs) == 1 && rng.IntN(10) == 0 {
			off = logs[0].Info().Length
		}
		k, err := a.AppendAt(ctx, off, s.record)
		if s.err = err; err != nil {
			cancel()
			continue
		}
		s.queued = true
		wg.Go(func() {
			defer cancel()
			if s.pos, s.err = k.Wait(ctx); s.err == nil {
				s.shard = k.Shard().Number
			}
		})
		if rng.IntN(8) == 0 {
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
		}
	}
	wg.Wait()
	return all
}

// lies is where a record was found.
type lies struct {
	shard uint32
	pos   uint64
}

func check(t *testing.T, logs []*fakeLog, producers [][]*sent) {
	t.Helper()
	at := make([]map[uint32]lies, len(producers))
	for i := range at {
		at[i] = map[uint32]lies{}
	}
	for i, l := range logs {
		find(t, uint32(i), l.mu.bytes, producers, at)
	}
	for id, all := range producers {
		for n, s := range all {
			where, there := at[id][uint32(n)]
			switch {
			case s.err == nil && (!there || where != lies{s.shard, s.pos}):
				t.Errorf("record %d of producer %d is acknowledged at %d of shard %d, lies at %+v: %v", n, id, s.pos, s.shard, where, there)
			case s.hidden() && there:
				t.Errorf("record %d of producer %d is there in spite of: %v", n, id, s.err)
			case !s.queued && there:
				t.Errorf("record %d of producer %d was not queued, and is there", n, id)
			}
		}
	}
}

// find notes where the records of a shard lie: each once, in its producer's order.
func find(t *testing.T, shard uint32, content []byte, producers [][]*sent, at []map[uint32]lies) {
	t.Helper()
	last := slices.Repeat([]int{-1}, len(producers))
	for pos := 0; pos < len(content); {
		le := binary.LittleEndian
		size, id, n := le.Uint32(content[pos:]), le.Uint32(content[pos+4:]), le.Uint32(content[pos+8:])
		if int(id) >= len(producers) || int(n) >= len(producers[id]) || !bytes.Equal(content[pos:pos+int(size)], producers[id][n].record) {
			t.Fatalf("no record at %d", pos)
		}
		if int(n) <= last[id] {
			t.Errorf("record %d of producer %d lies behind %d", n, id, last[id])
		}
		if where, twice := at[id][n]; twice {
			t.Errorf("record %d of producer %d lies at %d of shard %d, and at %+v", n, id, pos, shard, where)
		}
		last[id] = int(n)
		at[id][n] = lies{shard, uint64(pos)}
		pos += int(size)
	}
}
