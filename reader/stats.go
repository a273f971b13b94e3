package reader

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/internal/spread"
)

// Stats counts what a Cluster has done since it was opened.
type Stats struct {
	// Reads counts data reads that were answered, by source: one extent's run of
	// bytes over a memory transport, or one ranged read of the durable store.
	Reads map[string]uint64
	// Requests counts everything that was asked of the cache: data, descriptor,
	// identity and length-page reads, and durable reads.
	Requests uint64
	// Polls counts polls of all length pages that are followed, PageReads the reads of
	// pages in them that were answered: one a page and poll, however many Readers there
	// are, and another replica's now and then.
	Polls, PageReads uint64
	// Bytes counts what those moved; Delivered what Readers handed out.
	Bytes, Delivered uint64
	// DeliveredBy splits Delivered by source.
	DeliveredBy map[string]uint64
	// Retries counts reads that delivered nothing, by reason.
	Retries map[string]uint64
	// Failures counts reads that failed with their transport, by source; each is
	// among Retries too.
	Failures map[string]uint64
	// ReadBytes are the bytes of data reads and their descriptors, by source.
	ReadBytes map[string]uint64
	// Connects counts connections made, by source; DialFailures those that a node
	// offers, this host could have or was told to have (Config.RDMA names a device or a
	// GID), and that could not be made.
	Connects, DialFailures map[string]uint64
	// QPErrors counts RDMA connections that were lost, by rdma.Root.
	QPErrors map[string]uint64
	// Hedges counts reads of a second replica because the first was slow, HedgeWins
	// those that the second one won.
	Hedges, HedgeWins uint64
	// QuorumReads counts reads of all full replicas at once.
	QuorumReads uint64
	// PartialMisses counts reads of partial replicas that lacked the bytes: normal,
	// and not among Retries.
	PartialMisses uint64
	// Fills counts extents that a node has read from the durable store for everybody
	// because this process missed them; FillFailures those that it was to.
	Fills, FillFailures uint64
	// Transport is the best memory transport in use ("none" when none is up), and
	// Why the reason for it.
	Transport, Why string
	// Peers are the nodes, in the order of their description. Their Reads add up to
	// those of the memory transports as long as no node leaves.
	Peers []PeerStats
}

// PeerStats is how one node fares.
type PeerStats struct {
	Node string
	// State is up, resting (its reads failed a moment ago, or it is slow to be
	// reached), or away (not connected).
	State string
	// Transport is the best memory transport that is connected, and Why the reason
	// for it.
	Transport, Why string
	Reads          uint64        // data reads that it has answered
	Latency        time.Duration // of small reads lately
}

// States of a node.
const (
	peerUp      = "up"
	peerResting = "resting"
	peerAway    = "away"
)

func (p *peer) snapshot(now time.Time) PeerStats {
	st := p.status.Load()
	s := PeerStats{Node: p.name, State: peerAway, Transport: st.transport, Why: st.why, Reads: p.reads.Load()}
	live := *p.live.Load()
	if len(live) == 0 {
		return s
	}
	s.Latency = live[0].expect(now, 0)
	if s.State = peerResting; p.up(now) {
		s.State = peerUp
	}
	return s
}

// Stats returns what was done so far.
func (c *Cluster) Stats() Stats {
	s := c.count.snapshot()
	s.Transport, s.Why = "none", "no node is set"
	ro := c.roster.Load()
	if ro == nil {
		return s
	}
	now := time.Now()
	best, up := FromDurable, 0
	var away []string
	for _, p := range ro.peers {
		ps := p.snapshot(now)
		s.Peers = append(s.Peers, ps)
		live := *p.live.Load()
		if len(live) > 0 {
			best = min(best, live[0].source)
			up++
		} else {
			away = append(away, ps.Node+": "+ps.Why)
		}
	}
	if best < FromDurable {
		s.Transport = best.String()
	}
	switch {
	case len(ro.peers) == 1:
		s.Transport, s.Why = s.Peers[0].Transport, s.Peers[0].Why
	case len(away) == 0:
		s.Why = fmt.Sprintf("%s, all of %d nodes", c.cfg.Transport.reason(), up)
	default:
		s.Why = fmt.Sprintf("%s, %d of %d nodes; %s", c.cfg.Transport.reason(), up, len(ro.peers), strings.Join(away, "; "))
	}
	return s
}

// counters are a Cluster's; all may be used at once.
type counters struct {
	reads, failures, connects, deliveredBy [sources]atomic.Uint64
	readBytes, dialFailures                [sources]atomic.Uint64
	// times are how long reads took, by source: see flight.timed and gate.readAt.
	times [sources]spread.Histogram
	// pollEvery is the poll interval at present, in nanoseconds.
	pollEvery        atomic.Int64
	polls, pageReads atomic.Uint64
	// durableHeld is for how long limits have held durable reads back, in nanoseconds.
	durableHeld                        atomic.Int64
	durables                           atomic.Int64 // durable reads that wait or are under way
	qpErrors                           rootCounts
	retries                            [reasons]atomic.Uint64
	requests, bytes                    atomic.Uint64
	hedges, hedgeWins, quorums         atomic.Uint64
	partialMisses, fills, fillFailures atomic.Uint64
}

func (c *counters) polled(pages, bytes int) {
	c.requests.Add(uint64(pages))
	c.bytes.Add(uint64(bytes))
	c.pageReads.Add(uint64(pages))
}

func (c *counters) located(sets int) {
	c.requests.Add(uint64(sets))
	c.bytes.Add(uint64(sets) * layout.SetSize)
}

func (c *counters) read(from Source, requests, bytes int) {
	c.reads[from].Add(1)
	c.readBytes[from].Add(uint64(bytes))
	c.requests.Add(uint64(requests))
	c.bytes.Add(uint64(bytes))
}

func (c *counters) retry(r reason) { c.retries[r].Add(1) }

func (c *counters) failed(from Source, r reason) {
	c.failures[from].Add(1)
	c.retries[r].Add(1)
}

func (c *counters) delivered(from Source, n int) { c.deliveredBy[from].Add(uint64(n)) }

func (c *counters) snapshot() Stats {
	s := Stats{Requests: c.requests.Load(), Bytes: c.bytes.Load(), Polls: c.polls.Load(), PageReads: c.pageReads.Load(),
		Hedges: c.hedges.Load(), HedgeWins: c.hedgeWins.Load(), QuorumReads: c.quorums.Load(), PartialMisses: c.partialMisses.Load(),
		Fills: c.fills.Load(), FillFailures: c.fillFailures.Load(),
		Reads: bySource(&c.reads), DeliveredBy: bySource(&c.deliveredBy),
		ReadBytes: bySource(&c.readBytes), DialFailures: bySource(&c.dialFailures), QPErrors: c.qpErrors.snapshot(),
		Failures: bySource(&c.failures), Connects: bySource(&c.connects), Retries: map[string]uint64{}}
	for r := range reasons {
		s.Retries[reason(r).String()] = c.retries[r].Load()
	}
	for _, n := range s.DeliveredBy {
		s.Delivered += n
	}
	return s
}

func bySource(a *[sources]atomic.Uint64) map[string]uint64 {
	m := make(map[string]uint64, sources)
	for i := range a {
		m[Source(i).String()] = a[i].Load()
	}
	return m
}
