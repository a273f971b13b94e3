package service

import (
	"fmt"

	"github.com/rmatail/rmatail/bench"
)

const (
	// nodeKeeps is what a node with default logging keeps of the throughput of one
	// without a logger, at least.
	nodeKeeps = 0.97
	// watchedKeeps is what a node that is scraped and looked at keeps of one that is
	// not, at least.
	watchedKeeps = 0.98
	// volumeLeaves is what many lines a request leave, at most.
	volumeLeaves = 0.05
)

// claims says of all phases that were measured what the experiment is to show. What
// takes phases that were not measured is left out.
func claims(phases []Phase) (all []bench.Claim) {
	claim := func(holds bool, text, measured string) {
		all = append(all, bench.Claim{Text: text, Measured: measured, Holds: holds})
	}
	for _, p := range phases {
		switch {
		case p.Node && p.Path != Nowhere && p.PairsProcessor != nil:
			q := *p.PairsProcessor
			claim(q.Median >= nodeKeeps, fmt.Sprintf("a node with default logging keeps %.0f %% of its throughput, or more", 100*nodeKeeps),
				fmt.Sprintf("%.1f %% by processor time (median of the pairs, quartiles %.1f and %.1f)", 100*q.Median, 100*q.Q1, 100*q.Q3))
		case p.Watched && p.PairsProcessor != nil:
			q := *p.PairsProcessor
			claim(q.Median >= watchedKeeps, fmt.Sprintf("a node that is scraped at 1 Hz, with its page open, keeps %.0f %% of its throughput, or more", 100*watchedKeeps),
				fmt.Sprintf("%.1f %% by processor time (median of the pairs, quartiles %.1f and %.1f)", 100*q.Median, 100*q.Q1, 100*q.Q3))
		case p.Lines > 1000 && p.Calls == Enabled && p.Path != Limited:
			claim(p.OfOff < volumeLeaves, fmt.Sprintf("%d lines a request leave less than %.0f %%: %s", p.Lines, 100*volumeLeaves, p.Name), fmt.Sprintf("%.1f %%", 100*p.OfOff))
		}
	}
	return all
}
