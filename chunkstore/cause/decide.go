package cause

import (
	"fmt"
	"time"
)

// Verdict is a State with its evidence.
type Verdict struct {
	State State `json:"state"`
	// Why is one short sentence with the numbers that decided.
	Why string `json:"why"`
}

// Decide returns the state of a shard by the order of the package comment.
func Decide(f Facts) Verdict {
	for _, rule := range [...]func(*Facts) Verdict{
		complete, consumerSlow, durableThrottled, cacheMissing, producerStopped, producerSlow, transportDegraded, fine,
	} {
		if v := rule(&f); v.State != Unknown {
			return v
		}
	}
	return Verdict{Unknown, "neither a heartbeat nor a length is known"}
}

func verdict(s State, format string, a ...any) Verdict {
	return Verdict{s, fmt.Sprintf(format, a...)}
}

// atLeast reports whether a fact is known and v or more.
func atLeast[T ~int64 | ~uint64 | ~float64](m Maybe[T], v T) bool { return m.Known && m.V >= v }

// below returns by how much a is less than b; 0 if that is not known.
func below(a, b Maybe[uint64]) uint64 {
	if a.Known && b.Known && a.V < b.V {
		return b.V - a.V
	}
	return 0
}

// lag is what exists and is not delivered, as far as that is known.
func (f *Facts) lag() uint64 { return max(below(f.Position, f.Published), below(f.Position, f.Stored)) }

func (f *Facts) beat() time.Duration {
	if f.HeartbeatEvery > 0 {
		return f.HeartbeatEvery
	}
	return DefaultHeartbeat
}

func (f *Facts) beats(n float64) time.Duration { return time.Duration(n * float64(f.beat())) }

func complete(f *Facts) Verdict {
	end := f.Published
	if f.Stored.Known && f.Stored.V > end.V {
		end = f.Stored
	}
	switch {
	case !end.Known && !f.Stored.Known || f.lag() > 0 || below(f.Published, f.Stored) > 0:
	case f.Sealed:
		return verdict(Fine, "sealed at %d bytes", end.V)
	case f.Closed && !alive(f):
		return verdict(Fine, "closed by its writer at %d bytes", end.V)
	}
	return Verdict{}
}

func consumerSlow(f *Facts) Verdict {
	lag := f.lag()
	switch {
	case lag == 0 || !atLeast(f.LagAge, Patience):
	case f.Capped:
		return verdict(ConsumerSlow, "%d bytes have waited for %s: the consumer caps its rate", lag, short(f.LagAge.V))
	case atLeast(f.ConsumerAway, Patience):
		return verdict(ConsumerSlow, "%d bytes have waited for %s, the consumer has not asked for %s", lag, short(f.LagAge.V), short(f.ConsumerAway.V))
	case atLeast(f.ConsumerShare, BusyConsumer):
		return verdict(ConsumerSlow, "%d bytes have waited for %s, the consumer took %.0f %% of the time for itself", lag, short(f.LagAge.V), 100*f.ConsumerShare.V)
	}
	return Verdict{}
}

func durableThrottled(f *Facts) Verdict {
	why := ""
	if v := cacheMissing(f); v.State == CacheMissing {
		why = "; needed as " + v.Why
	}
	switch {
	case atLeast(f.StoreWait, Patience):
		return verdict(DurableThrottled, "a request to the durable store has waited for %s%s", short(f.StoreWait.V), why)
	case atLeast(f.StoreRefused, 1):
		return verdict(DurableThrottled, "the durable store refused or gave no answer in time to %d requests in %s%s", f.StoreRefused.V, short(f.Window), why)
	case atLeast(f.StoreHeld, HeldBack):
		return verdict(DurableThrottled, "limits held reads of the durable store back for %.0f %% of %s%s", 100*f.StoreHeld.V, short(f.Window), why)
	case atLeast(f.StoreTime, SlowRead):
		return verdict(DurableThrottled, "a read of the durable store takes %s%s", short(f.StoreTime.V), why)
	case atLeast(f.AppendsRefused, 1):
		return verdict(DurableThrottled, "the durable store did not take %d batches in %s", f.AppendsRefused.V, short(f.Window))
	case atLeast(f.AppendTime, Patience), atLeast(f.QueuedFor, Patience) && atLeast(f.AppendTime, SlowAppend):
		return verdict(DurableThrottled, "an append to the durable store takes %s%s", short(f.AppendTime.V), queued(f))
	}
	return Verdict{}
}

// queued is what waits in the writer's queue, as a part of a sentence.
func queued(f *Facts) string {
	switch {
	case !f.QueuedFor.Known || f.QueuedFor.V == 0:
		return ""
	case f.QueuedBytes.Known:
		return fmt.Sprintf(", %d bytes have queued for %s", f.QueuedBytes.V, short(f.QueuedFor.V))
	}
	return ", records have queued for " + short(f.QueuedFor.V)
}

func cacheMissing(f *Facts) Verdict {
	behind := below(f.Published, f.Stored)
	switch {
	case f.CacheAnswers.Known && !f.CacheAnswers.V:
		return verdict(CacheMissing, "0 replicas of its length page answer")
	case f.CacheKnows.Known && !f.CacheKnows.V && (atLeast(f.StoredGrew, 1) || f.Leased.Known && f.Leased.V && atLeast(f.Stored, 1)):
		return verdict(CacheMissing, "0 replicas know the shard, which is written: %d bytes are durable", f.Stored.V)
	case behind > 0 && atLeast(f.BehindFor, Patience) && !stillPublishes(f):
		return verdict(CacheMissing, "the published length has been %d bytes behind the durable one for %s", behind, short(f.BehindFor.V))
	case f.CatchingUp:
	case atLeast(f.FromStore, 1) && f.FromStore.V > f.FromCache.V && f.FromCache.Known:
		return verdict(CacheMissing, "%d of %d bytes came from the durable store in %s", f.FromStore.V, f.FromStore.V+f.FromCache.V, short(f.Window))
	case atLeast(f.Holes, 1) && f.lag() > 0 && atLeast(f.LagAge, Patience):
		return verdict(CacheMissing, "%d reads found holes in %s, %d bytes have been missing for %s", f.Holes.V, short(f.Window), f.lag(), short(f.LagAge.V))
	case f.HitRate.Known && f.HitRate.V < LowHitRate && alive(f):
		return verdict(CacheMissing, "the cache holds %.0f %% of the recent chunks", 100*f.HitRate.V)
	}
	return Verdict{}
}

// stillPublishes: a cache that is behind and is being brought up is the producer's
// matter.
func stillPublishes(f *Facts) bool {
	return f.PublishedAge.Known && f.PublishedAge.V < min(Patience, f.BehindFor.V)
}

// alive: the heartbeat is known and not late.
func alive(f *Facts) bool { return f.HeartbeatAge.Known && f.HeartbeatAge.V < f.beats(LateBeats) }

// silent: for how long no heartbeat was seen; unknown counts as none.
func silent(f *Facts) (age time.Duration, beats float64) {
	if !f.HeartbeatAge.Known {
		return 0, 0
	}
	return f.HeartbeatAge.V, float64(f.HeartbeatAge.V) / float64(f.beat())
}

func producerStopped(f *Facts) Verdict {
	lease := ""
	if f.Leased.Known {
		if lease = ", nobody holds its lease"; f.Leased.V {
			lease = ", its lease is still held"
		}
	}
	age, beats := silent(f)
	switch {
	case atLeast(f.StoredGrew, 1):
	case beats >= StoppedBeats:
		return verdict(ProducerStopped, "no heartbeat for %s, expected every %s%s", short(age), short(f.beat()), lease)
	case f.CacheKnows.Known && !f.CacheKnows.V && (f.StoredGrew.Known || f.Leased.Known && !f.Leased.V) && f.Stored.Known:
		return verdict(ProducerStopped, "0 replicas know the shard, whose %d durable bytes do not grow%s", f.Stored.V, lease)
	}
	return Verdict{}
}

func producerSlow(f *Facts) Verdict {
	age, beats := silent(f)
	switch {
	case beats >= LateBeats:
		return verdict(ProducerSlow, "the heartbeat is late: %s old, expected every %s", short(age), short(f.beat()))
	case atLeast(f.QueuedFor, Patience):
		return verdict(ProducerSlow, "an append to the durable store takes %s%s", maybeShort(f.AppendTime), queued(f))
	case below(f.Published, f.Stored) > 0 && atLeast(f.BehindFor, Patience):
		return verdict(ProducerSlow, "the published length moves, and has been %d bytes behind the durable one for %s", below(f.Published, f.Stored), short(f.BehindFor.V))
	}
	return Verdict{}
}

func transportDegraded(f *Facts) Verdict {
	switch {
	case f.Best.Known && f.Used.Known && f.Used.V < f.Best.V:
		return verdict(TransportDegraded, "memory is read over %s, %s is offered; %d reads failed in %s", f.Used.V, f.Best.V, f.ReadsFailed.V, short(f.Window))
	case atLeast(f.ReadsFailed, FailedReads):
		return verdict(TransportDegraded, "%d reads over %s failed in %s", f.ReadsFailed.V, f.Used.V, short(f.Window))
	}
	return Verdict{}
}

func fine(f *Facts) Verdict {
	switch {
	case alive(f) && f.Position.Known:
		return verdict(Fine, "%d bytes behind, heartbeat %s old", f.lag(), short(f.HeartbeatAge.V))
	case alive(f):
		return verdict(Fine, "heartbeat %s old", short(f.HeartbeatAge.V))
	case atLeast(f.StoredGrew, 1):
		return verdict(Fine, "the durable length grew by %d bytes in %s", f.StoredGrew.V, short(f.Window))
	case f.FromCache.Known && f.FromCache.V > 0:
		return verdict(Fine, "%d bytes came from the cache in %s", f.FromCache.V, short(f.Window))
	}
	return Verdict{}
}

// short prints a duration with as many digits as matter.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func maybeShort(d Maybe[time.Duration]) string {
	if !d.Known {
		return "an unknown time"
	}
	return short(d.V)
}
