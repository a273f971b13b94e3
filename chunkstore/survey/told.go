package survey

import (
	"cmp"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
)

// Told is what one node tells of a shard: what its own memory, leases and appenders
// show.
type Told struct {
	cause.Verdict
	Node      string `json:"-"`
	Tenant    string `json:"tenant"` // in whose memory it is; empty: nobody's
	Published uint64 `json:"published"`
	// Ages in seconds since the producer's heartbeat and the published length have
	// moved, as the node has seen it.
	HeartbeatAge float64 `json:"heartbeat_age_seconds"`
	PublishAge   float64 `json:"publish_age_seconds"`
}

// Weigh is the verdict on a shard by what the observer has found out itself, and what
// nodes tell. Nobody's word counts alone where others know better:
//
//   - appends that wait in a node are known to that node only;
//   - bytes that one node lacks, others may have: only all who tell of the shard make
//     the cache lack them;
//   - a silent producer has stopped, unless a node knows that it has given its lease
//     back, and no other says otherwise;
//   - where the observer knows nothing yet, what all nodes say counts.
//
// held is whether somebody holds the lease.
func Weigh(own cause.Verdict, held bool, nodes []Told) cause.Verdict {
	all := []cause.Verdict{own}
	says := func(s cause.State) (n int, first cause.Verdict) {
		for i := range nodes {
			if t := &nodes[i]; t.State == s {
				if n++; n == 1 {
					first = t.by()
				}
			}
		}
		return n, first
	}
	for i := range nodes {
		t := &nodes[i]
		queue := t.State == cause.ProducerSlow && t.HeartbeatAge < cause.LateBeats*cause.DefaultHeartbeat.Seconds()
		if t.State == cause.DurableThrottled || queue {
			all = append(all, t.by())
		}
	}
	if n, v := says(cause.CacheMissing); n > 0 && n == len(nodes) {
		all = append(all, v)
	}
	stopped, silent := says(cause.ProducerStopped)
	fine, well := says(cause.Fine)
	switch {
	case own.State == cause.Unknown && stopped > 0 && stopped == len(nodes):
		all = append(all, silent)
	case own.State == cause.Unknown && fine > 0:
		all = append(all, well)
	case own.State == cause.ProducerStopped && !held && stopped == 0 && fine > 0:
		all[0] = well // silent, and fine to a node: closed
	}
	return First(all)
}

// FreshReport is how old a consumer's report may be to decide a shard's state, in seconds.
const FreshReport = 10

// OfConsumers says whether a state is one that a consumer knows as well as nodes do, or
// better: what it says of the producer is not.
func OfConsumers(s cause.State) bool {
	switch s {
	case cause.ConsumerSlow, cause.TransportDegraded, cause.CacheMissing, cause.DurableThrottled:
		return true
	}
	return false
}

// by is the verdict with the node's name.
func (t *Told) by() cause.Verdict {
	return cause.Verdict{State: t.State, Why: t.Node + ": " + t.Why}
}

// order is that of package cause: the first of these that is found is the state.
var order = [...]cause.State{cause.ConsumerSlow, cause.DurableThrottled, cause.CacheMissing, cause.ProducerStopped, cause.ProducerSlow,
	cause.TransportDegraded, cause.Fine}

// First returns the verdict that comes first in the order of package cause; Unknown is
// the last.
func First(all []cause.Verdict) cause.Verdict {
	return slices.MinFunc(all, func(a, b cause.Verdict) int { return cmp.Compare(Rank(a.State), Rank(b.State)) })
}

// Rank is where a state comes in that order.
func Rank(s cause.State) int {
	if i := slices.Index(order[:], s); i >= 0 {
		return i
	}
	return len(order)
}

// Youngest is the smallest of an age in seconds that nodes tell, of one node at least.
func Youngest(nodes []Told, age func(Told) float64) time.Duration {
	least := age(nodes[0])
	for _, n := range nodes[1:] {
		least = min(least, age(n))
	}
	return time.Duration(least * float64(time.Second))
}
