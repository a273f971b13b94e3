package producer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// sent is one record of the model and what its producer was told.
type sent struct {
	record []byte
	queued bool
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
				synctest.Test(t, func(t *testing.T) { fates(t, policy, seed) })
			})
		}
	}
}

func fates(t *testing.T, policy Policy, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(policy)))
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
	cache := newFakeCache(t, log.trace)
	cfg := Config{
		Shard: testShard, Log: &slowLog{log, delay}, ReadTail: log.ReadAt, Cache: cache, Policy: policy,
		Limits: Limits{QueueRecords: 1 + rng.IntN(40), QueueBytes: 200 + rng.IntN(2000), BatchRecords: 1 + rng.IntN(16), BatchBytes: 100 + rng.IntN(500)},
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
		wg.Go(func() { producers[i] = produce(a, log, rng, uint32(i)) })
	}
	wg.Wait()
	closing, cancel := context.WithCancel(t.Context())
	if rng.IntN(3) == 0 {
		closing, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	}
	_ = a.Close(closing)
	cancel()
	mustClose(t, a)
	check(t, log, cache, producers)
	if s := a.Stats(); s.QueueRecords != 0 || s.QueueRecordsMax > cfg.Limits.QueueRecords {
		t.Errorf("%d records are left, %d were at most", s.QueueRecords, s.QueueRecordsMax)
	}
}

// produce appends records that each name their producer and number.
func produce(a *Appender, log *fakeLog, rng *rand.Rand, id uint32) (all []*sent) {
	var wg sync.WaitGroup
	for n := range uint32(150) {
		s := &sent{record: bytes.Repeat([]byte{'.'}, 12+rng.IntN(60))}
		binary.LittleEndian.PutUint32(s.record, uint32(len(s.record)))
		binary.LittleEndian.PutUint32(s.record[4:], id)
		binary.LittleEndian.PutUint32(s.record[8:], n)
		all = append(all, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(20))*time.Millisecond)
		off := uint64(wire.NoOffset)
		if rng.IntN(10) == 0 {
			off = log.Info().Length
		}
		k, err := a.AppendAt(ctx, off, s.record)
		if s.err = err; err != nil {
			cancel()
			continue
		}
		s.queued = true
		wg.Go(func() {
			defer cancel()
			s.pos, s.err = k.Wait(ctx)
		})
		if rng.IntN(8) == 0 {
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
		}
	}
	wg.Wait()
	return all
}

func check(t *testing.T, log *fakeLog, cache *fakeCache, producers [][]*sent) {
	t.Helper()
	at := make([]map[uint32]uint64, len(producers)) // where each record lies
	last := make([]int, len(producers))
	for i := range at {
		at[i], last[i] = map[uint32]uint64{}, -1
	}
	content := log.mu.bytes
	for pos := 0; pos < len(content); {
		le := binary.LittleEndian
		size, id, n := le.Uint32(content[pos:]), le.Uint32(content[pos+4:]), le.Uint32(content[pos+8:])
		if int(id) >= len(producers) || int(n) >= len(producers[id]) || !bytes.Equal(content[pos:pos+int(size)], producers[id][n].record) {
			t.Fatalf("no record at %d", pos)
		}
		if int(n) <= last[id] {
			t.Errorf("record %d of producer %d lies behind %d", n, id, last[id])
		}
		last[id] = int(n)
		at[id][n] = uint64(pos)
		pos += int(size)
	}
	for id, all := range producers {
		for n, s := range all {
			pos, there := at[id][uint32(n)]
			switch {
			case s.err == nil && (!there || pos != s.pos):
				t.Errorf("record %d of producer %d is acknowledged at %d, lies at %d: %v", n, id, s.pos, pos, there)
			case s.hidden() && there:
				t.Errorf("record %d of producer %d is there in spite of: %v", n, id, s.err)
			case !s.queued && there:
				t.Errorf("record %d of producer %d was not queued, and is there", n, id)
			}
		}
	}
	if got := cache.length(); got != uint64(len(content)) {
		t.Errorf("published %d, durable %d", got, len(content))
	}
}
