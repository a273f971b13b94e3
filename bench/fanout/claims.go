package fanout

import (
	"fmt"
	"math"

	"github.com/rmatail/rmatail/bench"
)

const (
	// claimedFrom rounds on something is claimed: of fewer a median says little.
	claimedFrom = 5
	// none is how much processor time by MB counts as none: a fifth of what a copy and
	// a check of the same MB take, since two windows of the same work differ by more
	// than nothing.
	none = 0.02
	// full is the share of the wanted rate that counts as all of it: the window cuts
	// through deliveries.
	full = 0.99
)

// claims says of all cells that were measured what must hold of them.
func claims(res *Result) []bench.Claim {
	if len(res.Rounds) < claimedFrom {
		return nil
	}
	j := judge{res: res}
	shm512 := key{SHM, Beat, 1, 512, 10}
	j.most("shm, 512 consumers of one shard, 10 ms poll: delivery p99 at most 12 ms", shm512, 12, func(f *Figures) float64 { return f.P99 })
	j.most("the same: no server CPU beyond what the producer costs (0.02 ms/MB)", shm512, none, func(f *Figures) float64 { return f.Beyond })
	j.most("shm, 8 consumers of one shard, default poll: delivery p50 at most 1 ms", key{SHM, Beat, 1, 8, 0}, 1, func(f *Figures) float64 { return f.P50 })
	for _, of := range []struct {
		what string
		get  func(*Figures) float64
	}{
		{"p50", func(f *Figures) float64 { return f.P50 }},
		{"p99", func(f *Figures) float64 { return f.P99 }},
		{"server CPU by MB", func(f *Figures) float64 { return f.ServerPerMB }},
	} {
		j.best("tcp, 512 consumers of one shard: "+of.what, key{TCP, Beat, 1, 512, 0}, of.get,
			key{RedisStreams, Beat, 1, 512, 0}, key{JetStream, Beat, 1, 512, 0}, key{Nginx, Beat, 1, 512, 10})
	}
	tcp64, shm64 := key{TCP, Saturation, 1, 64, 0}, key{SHM, Saturation, 1, 64, 10}
	j.least("tcp, 64 consumers x 16.8 MB/s: the full rate", tcp64, full, func(f *Figures) float64 { return f.Share })
	j.most("the same: server CPU at most 0.40 ms/MB", tcp64, 0.40, func(f *Figures) float64 { return f.ServerPerMB })
	j.least("shm, 64 consumers x 16.8 MB/s: the full rate", shm64, full, func(f *Figures) float64 { return f.Share })
	j.most("the same: no server CPU beyond what the producer costs (0.02 ms/MB)", shm64, none, func(f *Figures) float64 { return f.Beyond })
	for _, p := range []Program{SHM, RDMA} {
		for _, poll := range []float64{1, 10, 50} {
			k := key{p, Lines, 1, 4, poll}
			j.most(fmt.Sprintf("%s, records of 200 B, poll %g ms: bytes moved by delivered byte at most 1.03", p, poll), k, 1.03, func(f *Figures) float64 { return f.Moved })
			j.requests(k)
		}
	}
	return j.all
}

// judge collects claims.
type judge struct {
	res *Result
	all []bench.Claim
}

func (j *judge) claim(holds bool, text, format string, args ...any) {
	j.all = append(j.all, bench.Claim{Text: text, Measured: fmt.Sprintf(format, args...), Holds: holds})
}

// row returns the medians of a cell that was measured; nil: of one that was not.
// One that failed holds nothing.
func (j *judge) row(text string, k key) *Row {
	r := find(j.res.Rows, k)
	if r != nil && r.Failures > 0 {
		j.claim(false, text, "failed in %d rounds: %s", r.Failures, r.Failed)
		return nil
	}
	return r
}

func (j *judge) most(text string, k key, bound float64, get func(*Figures) float64) {
	if r := j.row(text, k); r != nil {
		j.claim(get(&r.Figures) <= bound, text, "%.3f (%.3f to %.3f)", get(&r.Figures), get(r.Least), get(r.Most))
	}
}

func (j *judge) least(text string, k key, bound float64, get func(*Figures) float64) {
	if r := j.row(text, k); r != nil {
		j.claim(get(&r.Figures) >= bound, text, "%.3f (%.3f to %.3f)", get(&r.Figures), get(r.Least), get(r.Most))
	}
}

// best claims that ours is at or below the best of peers. The ratio is taken in
// each round.
func (j *judge) best(text string, ours key, get func(*Figures) float64, peers ...key) {
	text += " at or below the best of the peers"
	if j.row(text, ours) == nil {
		return
	}
	var ratios []float64
	names := ""
	for _, round := range j.res.Rounds {
		least, of := math.Inf(1), ""
		for _, k := range peers {
			if r := find(round, k); r != nil && r.Failed == "" && get(&r.Figures) < least {
				least, of = get(&r.Figures), r.Program.String()
			}
		}
		if r := find(round, ours); r != nil && !math.IsInf(least, 1) {
			ratios = append(ratios, get(&r.Figures)/max(least, 1e-9))
			names = of
		}
	}
	if len(ratios) == 0 {
		return
	}
	m := median(ratios) // sorts
	j.claim(m <= 1, text, "%.3f times (%.3f to %.3f; in the last round of %s)", m, ratios[0], ratios[len(ratios)-1], names)
}

// requests claims that there is at most one data READ for each delivery, and a page
// READ for each poll and process.
func (j *judge) requests(k key) {
	text := fmt.Sprintf("%s, records of 200 B, poll %g ms: at most a data READ by shard and poll with news, and a page READ by poll", k.program, k.poll)
	if j.row(text, k) == nil {
		return
	}
	var data, polls []float64
	for _, round := range j.res.Rounds {
		if r := find(round, k); r != nil && r.Failed == "" {
			t := r.Traffic
			data = append(data, float64(t.Requests-t.Pages)/float64(max(t.News, 1)))
			// An eighth of jitter makes intervals shorter.
			most := j.res.Settings.Seconds * 1e3 / (k.poll * 7 / 8) * float64(processesOf(k.consumers))
			polls = append(polls, float64(t.Pages)/most)
		}
	}
	d, p := median(data), median(polls)
	j.claim(d <= 1.02 && p <= 1.02, text, "%.3f data READs by delivery (%.3f to %.3f), %.2f page READs by poll (%.2f to %.2f)", d, data[0], data[len(data)-1], p, polls[0], polls[len(polls)-1])
}
