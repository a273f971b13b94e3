package scale

import (
	"fmt"

	"github.com/rmatail/rmatail/bench"
)

// claims says of the published experiments what is to hold.
func claims(rows []Row) (all []bench.Claim) {
	claim := func(holds bool, text, measured string, args ...any) {
		all = append(all, bench.Claim{Text: text, Measured: fmt.Sprintf(measured, args...), Holds: holds})
	}
	for _, r := range rows {
		switch {
		case r.Consumers == 7950 && r.Lost == 0:
			claim(r.MovedGbps <= 63 && r.UsefulGbps >= 0.99*usefulGbps, "7,950 consumers: at most 63 Gb/s moved for 62 useful (published: 70)", "%.2f Gb/s for %.2f", r.MovedGbps, r.UsefulGbps)
			claim(r.Requests <= 2.1e6, "7,950 consumers: at most 2.1 M requests/s in all (published: 4.5 M)", "%.2f M/s", r.Requests/1e6)
			claim(r.StoreReads == 0 && r.P99 <= r.Published.P99, "7,950 consumers: no read of the durable store, p99 below the published 500 ms (which are three hops)", "%.0f reads, p99 %v", r.StoreReads, r.P99)
		case r.Consumers == 20000:
			share := r.Metadata / r.Published.Metadata
			claim(share <= 0.01, "20,000 consumers: at most 1 % of the published 19.2 M metadata requests/s at the same poll interval", "%.2f %%, %.0f/s", 100*share, r.Metadata)
		case r.Lost > 0 && r.Lost <= 2:
			claim(r.StoreReads == 0, fmt.Sprintf("%s: no read of the durable store", r.Name), "%.0f reads, p99 %v, longest %v", r.StoreReads, r.P99, r.Max)
		case r.Start == 0 && r.Warm == 0:
			claim(r.StoreReads == 0, fmt.Sprintf("%s: no read of the durable store", r.Name), "%.0f reads, %.0f questions of Readers that open, p99 %v", r.StoreReads, r.OpenStats, r.P99)
		}
	}
	return all
}
