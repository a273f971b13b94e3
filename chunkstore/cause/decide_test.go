package cause

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// healthy is a shard about which everything is known, and nothing is wrong.
func healthy() Facts {
	return Facts{
		Window: 10 * time.Second,
		Stored: Know[uint64](1000), Published: Know[uint64](1000), Position: Know[uint64](1000),
		HeartbeatAge: Know(400 * ms), PublishedAge: Know(100 * ms), StoredGrew: Know[uint64](500), Leased: Know(true),
		QueuedFor: Know(time.Duration(0)), QueuedBytes: Know[uint64](0), AppendTime: Know(2 * ms), AppendsRefused: Know[uint64](0),
		CacheAnswers: Know(true), CacheKnows: Know(true), BehindFor: Know(time.Duration(0)), HitRate: Know(1.0),
		FromCache: Know[uint64](500), FromStore: Know[uint64](0), Holes: Know[uint64](0),
		StoreWait: Know(time.Duration(0)), StoreTime: Know(ms), StoreHeld: Know(0.0), StoreRefused: Know[uint64](0),
		Best: Know(RDMA), Used: Know(RDMA), ReadsFailed: Know[uint64](0),
		LagAge: Know(time.Duration(0)), ConsumerAway: Know(time.Duration(0)), ConsumerShare: Know(0.1),
	}
}

func TestDecide(t *testing.T) {
	seen := map[State]bool{}
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   State
		why    string
	}{
		{"all is well", func(f *Facts) {}, Fine, "heartbeat 400ms old"},
		{"idle, and the producer lives", func(f *Facts) { f.StoredGrew.V, f.FromCache.V, f.PublishedAge.V = 0, 0, time.Hour }, Fine, "0 bytes behind"},
		{"sealed and delivered, long ago", func(f *Facts) { f.Sealed, f.HeartbeatAge.V, f.StoredGrew.V = true, time.Hour, 0 }, Fine, "sealed at 1000 bytes"},
		{"closed by its writer", func(f *Facts) { f.Closed, f.Leased.V, f.HeartbeatAge.V, f.StoredGrew.V = true, false, time.Hour, 0 }, Fine, "closed by its writer at 1000 bytes"},
		{"sealed, and the consumer sleeps", func(f *Facts) {
			f.Sealed, f.Position.V, f.LagAge.V, f.ConsumerAway.V = true, 10, 3*time.Second, 3*time.Second
		}, ConsumerSlow, "990 bytes have waited for 3s"},
		{"no heartbeat", func(f *Facts) { f.HeartbeatAge.V, f.StoredGrew.V = 7*time.Second, 0 }, ProducerStopped, "no heartbeat for 7s, expected every 1s, its lease is still held"},
		{"no heartbeat, no lease", func(f *Facts) { f.HeartbeatAge.V, f.StoredGrew.V, f.Leased.V = time.Minute, 0, false }, ProducerStopped, "nobody holds its lease"},
		{"no heartbeat by a slower beat", func(f *Facts) { f.HeartbeatEvery, f.HeartbeatAge.V = 10*time.Second, 7*time.Second }, Fine, "7s old"},
		{"no heartbeat, but the store grows", func(f *Facts) { f.HeartbeatAge.V = 7 * time.Second }, ProducerSlow, "7s old"},
		{"forgotten by the cache, and nobody writes", func(f *Facts) {
			f.CacheKnows.V, f.HeartbeatAge, f.Published, f.StoredGrew.V, f.Leased.V = false, Maybe[time.Duration]{}, Maybe[uint64]{}, 0, false
		}, ProducerStopped, "do not grow"},
		{"late heartbeat", func(f *Facts) { f.HeartbeatAge.V, f.StoredGrew.V = 3*time.Second, 0 }, ProducerSlow, "late: 3s old"},
		{"records queue, the store is quick", func(f *Facts) { f.QueuedFor.V, f.QueuedBytes.V = 2*time.Second, 4096 }, ProducerSlow, "takes 2ms, 4096 bytes have queued for 2s"},
		{"published behind, and moving", func(f *Facts) { f.Published.V, f.BehindFor.V, f.PublishedAge.V = 900, 2*time.Second, 50*ms }, ProducerSlow, "100 bytes behind"},
		{"published behind, and stuck", func(f *Facts) { f.Published.V, f.BehindFor.V, f.PublishedAge.V = 900, 2*time.Second, 2*time.Second }, CacheMissing, "100 bytes behind the durable one for 2s"},
		{"published behind, only just", func(f *Facts) { f.Published.V, f.BehindFor.V = 900, 100*ms }, Fine, ""},
		{"no node answers", func(f *Facts) { f.CacheAnswers.V, f.HeartbeatAge = false, Maybe[time.Duration]{} }, CacheMissing, "0 replicas"},
		{"forgotten by the cache, and written", func(f *Facts) { f.CacheKnows.V, f.HeartbeatAge = false, Maybe[time.Duration]{} }, CacheMissing, "1000 bytes are durable"},
		{"bytes come from the store", func(f *Facts) { f.FromStore.V, f.FromCache.V = 400, 100 }, CacheMissing, "400 of 500 bytes came from the durable store in 10s"},
		{"bytes come from the store: history", func(f *Facts) { f.FromStore.V, f.FromCache.V, f.CatchingUp = 400, 100, true }, Fine, ""},
		{"holes, and bytes are late", func(f *Facts) { f.Holes.V, f.Position.V, f.LagAge.V = 7, 900, 2*time.Second }, CacheMissing, "7 reads found holes"},
		{"holes of a quick consumer", func(f *Facts) { f.Holes.V = 7 }, Fine, ""},
		{"empty after a restart", func(f *Facts) { f.HitRate.V = 0.25 }, CacheMissing, "holds 25 % of the recent chunks"},
		{"empty, as nobody writes", func(f *Facts) { f.HitRate.V, f.HeartbeatAge.V, f.StoredGrew.V = 0, time.Hour, 0 }, ProducerStopped, ""},
		{"a store read waits", func(f *Facts) { f.StoreWait.V = 1500 * ms }, DurableThrottled, "waited for 1.5s"},
		{"a store read waits as the cache is empty", func(f *Facts) { f.StoreWait.V, f.FromStore.V, f.FromCache.V = 1500*ms, 9, 1 }, DurableThrottled, "needed as 9 of 10 bytes"},
		{"limits hold store reads back", func(f *Facts) { f.StoreHeld.V = 0.8 }, DurableThrottled, "for 80 % of 10s"},
		{"store reads are slow", func(f *Facts) { f.StoreTime.V = 400 * ms }, DurableThrottled, "takes 400ms"},
		{"the store refuses", func(f *Facts) { f.StoreRefused.V = 3 }, DurableThrottled, "3 requests in 10s"},
		{"the store refuses appends", func(f *Facts) { f.AppendsRefused.V = 2 }, DurableThrottled, "2 batches"},
		{"an append hangs", func(f *Facts) { f.AppendTime.V = 3 * time.Second }, DurableThrottled, "takes 3s"},
		{"records queue before a slow store", func(f *Facts) { f.QueuedFor.V, f.AppendTime.V = 2*time.Second, 300*ms }, DurableThrottled, "queued for 2s"},
		{"tcp instead of rdma", func(f *Facts) { f.Used.V = TCP }, TransportDegraded, "over tcp, rdma is offered"},
		{"reads fail", func(f *Facts) { f.ReadsFailed.V = 5 }, TransportDegraded, "5 reads over rdma failed"},
		{"one read failed", func(f *Facts) { f.ReadsFailed.V = 1 }, Fine, ""},
		{"the consumer sleeps", func(f *Facts) { f.Position.V, f.LagAge.V, f.ConsumerAway.V = 0, 5*time.Second, 4*time.Second }, ConsumerSlow, "not asked for 4s"},
		{"the consumer is busy", func(f *Facts) { f.Position.V, f.LagAge.V, f.ConsumerShare.V = 0, 5*time.Second, 0.9 }, ConsumerSlow, "90 % of the time"},
		{"the consumer caps itself", func(f *Facts) { f.Position.V, f.LagAge.V, f.Capped = 0, 5*time.Second, true }, ConsumerSlow, "caps its rate"},
		{"the consumer is away, with everything", func(f *Facts) { f.ConsumerAway.V, f.ConsumerShare.V = time.Hour, 1 }, Fine, ""},
		{"nothing is known", func(f *Facts) { *f = Facts{} }, Unknown, "neither"},
		{"only that the store grows", func(f *Facts) { *f = Facts{StoredGrew: Know[uint64](5), Window: time.Second} }, Fine, "5 bytes in 1s"},
		{"only that bytes came from the cache", func(f *Facts) { *f = Facts{FromCache: Know[uint64](5), Window: time.Minute} }, Fine, "5 bytes came from the cache in 1m0s"},
		{"only a late heartbeat", func(f *Facts) { *f = Facts{HeartbeatAge: Know(time.Minute)} }, ProducerStopped, "1m0s"},
	} {
		f := healthy()
		c.change(&f)
		seen[c.want] = true
		if v := Decide(f); v.State != c.want || !strings.Contains(v.Why, c.why) {
			t.Errorf("%s: %v, %q; want %v, %q", c.name, v.State, v.Why, c.want, c.why)
		}
	}
	for _, s := range States() {
		if !seen[s] {
			t.Errorf("no row reaches %v", s)
		}
	}
}

// guesses draws facts around the bounds, each known or not.
func guesses(t *rapid.T) Facts {
	length := func(name string) Maybe[uint64] {
		return Maybe[uint64]{rapid.SampledFrom([]uint64{0, 1, 3, 1000, 1 << 63}).Draw(t, name), rapid.Bool().Draw(t, name+" known")}
	}
	age := func(name string) Maybe[time.Duration] {
		return Maybe[time.Duration]{rapid.SampledFrom([]time.Duration{-time.Second, 0, ms, 900 * ms, 1100 * ms, 3 * time.Second, 6 * time.Second, time.Hour}).Draw(t, name),
			rapid.Bool().Draw(t, name+" known")}
	}
	flag := func(name string) Maybe[bool] {
		return Maybe[bool]{rapid.Bool().Draw(t, name), rapid.Bool().Draw(t, name+" known")}
	}
	part := func(name string) Maybe[float64] {
		return Maybe[float64]{rapid.Float64Range(0, 1).Draw(t, name), rapid.Bool().Draw(t, name+" known")}
	}
	way := func(name string) Maybe[Transport] {
		return Maybe[Transport]{Transport(rapid.IntRange(0, 3).Draw(t, name)), rapid.Bool().Draw(t, name+" known")}
	}
	f := Facts{
		Window: rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "window"),
		Stored: length("stored"), Published: length("published"), Position: length("position"), Sealed: rapid.Bool().Draw(t, "sealed"), Closed: rapid.IntRange(0, 3).Draw(t, "closed") == 0,
		HeartbeatEvery: rapid.SampledFrom([]time.Duration{0, 100 * ms, time.Second}).Draw(t, "beat"),
		HeartbeatAge:   age("heartbeat"), PublishedAge: age("published age"), StoredGrew: length("grew"), Leased: flag("leased"),
		QueuedFor: age("queued"), QueuedBytes: length("queued bytes"), AppendTime: age("append"), AppendsRefused: length("appends refused"),
		CacheAnswers: flag("answers"), CacheKnows: flag("knows"), BehindFor: age("behind"), HitRate: part("hits"),
		FromCache: length("cache"), FromStore: length("store"), Holes: length("holes"),
		StoreWait: age("store wait"), StoreTime: age("store time"), StoreHeld: part("held"), StoreRefused: length("store refused"), Best: way("best"), Used: way("used"), ReadsFailed: length("failed"),
		LagAge: age("lag"), ConsumerAway: age("away"), ConsumerShare: part("share"), Capped: rapid.Bool().Draw(t, "capped"), CatchingUp: rapid.Bool().Draw(t, "catching up"),
	}
	// Most of a shard is well most of the time, else only the first rules are met.
	h := healthy()
	for _, w := range []struct {
		name string
		mend func()
	}{
		{"lengths", func() {
			f.Stored, f.Published, f.Position, f.StoredGrew = h.Stored, h.Published, h.Position, Know[uint64](0)
		}},
		{"cache", func() {
			f.CacheAnswers, f.CacheKnows, f.HitRate, f.BehindFor = h.CacheAnswers, h.CacheKnows, h.HitRate, h.BehindFor
		}},
		{"reads", func() { f.FromCache, f.FromStore, f.Holes = h.FromCache, h.FromStore, h.Holes }},
		{"store", func() {
			f.StoreWait, f.StoreTime, f.StoreHeld, f.StoreRefused, f.AppendsRefused, f.AppendTime = h.StoreWait, h.StoreTime, h.StoreHeld, h.StoreRefused, h.AppendsRefused, h.AppendTime
		}},
		{"transport", func() { f.Best, f.Used, f.ReadsFailed = h.Best, h.Used, h.ReadsFailed }},
		{"writer", func() { f.HeartbeatAge, f.QueuedFor = h.HeartbeatAge, h.QueuedFor }},
	} {
		if rapid.IntRange(0, 3).Draw(t, w.name+" is well") > 0 {
			w.mend()
		}
	}
	return f
}

var number = regexp.MustCompile(`[0-9]`)

// What is not known is not claimed: a state needs the facts that it speaks of, and
// its sentence has numbers.
func TestDecideClaimsOnlyWhatIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := guesses(t)
		v := Decide(f)
		if v.State != Unknown && !number.MatchString(v.Why) {
			t.Errorf("%v without a number: %q", v.State, v.Why)
		}
		for state, without := range map[State]func(f *Facts){
			ProducerStopped: func(f *Facts) { f.HeartbeatAge, f.CacheKnows = Maybe[time.Duration]{}, Maybe[bool]{} },
			ProducerSlow: func(f *Facts) {
				f.HeartbeatAge, f.QueuedFor, f.BehindFor = Maybe[time.Duration]{}, Maybe[time.Duration]{}, Maybe[time.Duration]{}
			},
			CacheMissing: func(f *Facts) {
				f.CacheAnswers, f.CacheKnows, f.HitRate, f.BehindFor = Maybe[bool]{}, Maybe[bool]{}, Maybe[float64]{}, Maybe[time.Duration]{}
				f.FromStore, f.Holes = Maybe[uint64]{}, Maybe[uint64]{}
			},
			DurableThrottled: func(f *Facts) {
				f.StoreWait, f.StoreTime, f.AppendTime = Maybe[time.Duration]{}, Maybe[time.Duration]{}, Maybe[time.Duration]{}
				f.StoreHeld = Maybe[float64]{}
				f.StoreRefused, f.AppendsRefused = Maybe[uint64]{}, Maybe[uint64]{}
			},
			TransportDegraded: func(f *Facts) { f.Best, f.ReadsFailed = Maybe[Transport]{}, Maybe[uint64]{} },
			ConsumerSlow:      func(f *Facts) { f.Position = Maybe[uint64]{} },
		} {
			g := f
			without(&g)
			if v := Decide(g); v.State == state {
				t.Errorf("%v is claimed without the facts for it: %q", state, v.Why)
			}
		}
	})
}

// Silence that goes on does not make a producer that has stopped look better, and
// an unknown fact counts the same whatever its value.
func TestDecideIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := guesses(t)
		g := f
		if f.HeartbeatAge.Known {
			g.HeartbeatAge.V += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
			if a, b := Decide(f).State, Decide(g).State; a == ProducerStopped && b != a {
				t.Errorf("after a longer silence %v became %v", a, b)
			}
			return
		}
		g.HeartbeatAge.V = time.Hour
		if a, b := Decide(f), Decide(g); a != b {
			t.Errorf("an unknown age changed %v to %v", a, b)
		}
	})
}

func TestStateText(t *testing.T) {
	for _, s := range States() {
		b, err := json.Marshal(Verdict{s, "x"})
		if err != nil {
			t.Fatal(err)
		}
		var back Verdict
		if err := json.Unmarshal(b, &back); err != nil || back.State != s {
			t.Errorf("%s came back as %v, %v", b, back.State, err)
		}
		if s.Bad() != (s != Unknown && s != Fine) {
			t.Errorf("%v bad: %v", s, s.Bad())
		}
	}
	var s State
	if err := s.UnmarshalText([]byte("state 1")); !errors.Is(err, ErrState) {
		t.Errorf("a text that names no state: %v", err)
	}
}
