package read

import (
	"fmt"

	"github.com/rmatail/rmatail/bench"
)

const (
	// claimedFrom rounds on something is claimed: of fewer a median says little.
	claimedFrom = 5
	// noAllocs bounds the allocations of a read that counts as free of them: what the
	// runtime itself takes now and then, and seeking back takes once a shard.
	noAllocs = 0.01
)

// claims says of all cells that were measured what must hold of them: the medians
// of ratios between programs that ran in turn.
func claims(res *Result) (all []bench.Claim) {
	if len(res.Rounds) < claimedFrom {
		return nil
	}
	claim := func(holds bool, text string, got Spread) {
		all = append(all, bench.Claim{Text: text, Measured: fmt.Sprintf("%.3f (%.3f to %.3f)", got.Median, got.Least, got.Most), Holds: holds})
	}
	for _, c := range []struct {
		cell  cell
		what  string
		bound float64
	}{
		{cell{RDMA, Raw, Rate, 64}, "rdma, raw 4 KiB, batch 64: rate", 0.95},
		{cell{RDMA, Line, Rate, 64}, "rdma, raw 64 B, batch 64: rate", 0.95},
		{cell{RDMA, Raw, Latency, 1}, "rdma, raw 4 KiB, depth 1: median latency", 1.12},
		{cell{SHM, Backlog, Rate, 0}, "shm, verified 4 KiB chunks of a backlog: rate", 0.75},
		{cell{TCP, Raw, Rate, 64}, "tcp, raw 4 KiB, depth 64, one connection: rate", 0.85},
	} {
		r := find(res.Rows, c.cell)
		switch {
		case r == nil || r.Ratio == nil:
		case c.cell.mode == Latency:
			claim(r.Ratio.Median <= c.bound, fmt.Sprintf("%s at most %.2f of the floor's", c.what, c.bound), *r.Ratio)
		default:
			claim(r.Ratio.Median >= c.bound, fmt.Sprintf("%s at least %.2f of the floor's", c.what, c.bound), *r.Ratio)
		}
	}
	for _, o := range res.OneSided {
		all = append(all, bench.Claim{
			Text:     fmt.Sprintf("%s, %d one-sided reads and more: the node's processor time no more than it uses idle for as long", o.Transport, o.Reads),
			Measured: fmt.Sprintf("%.0f us (%.0f to %.0f), idle %.0f us (%.0f to %.0f)", o.Busy.Median, o.Busy.Least, o.Busy.Most, o.Idle.Median, o.Idle.Least, o.Idle.Most),
			Holds:    o.noBusier()})
	}
	for _, r := range res.Rows {
		if !r.Kind.verified() || r.Ours.Allocs == nil {
			continue
		}
		var of []float64
		for _, round := range res.Rounds {
			if o := find(round, r.cell()); o != nil && o.Ours.Allocs != nil {
				of = append(of, *o.Ours.Allocs)
			}
		}
		got := spread(of)
		claim(got.Median < noAllocs, fmt.Sprintf("%s: no allocations", r.name()), got)
	}
	return append(all, peerClaims(res)...)
}
