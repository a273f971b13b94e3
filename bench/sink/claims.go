package sink

import (
	"fmt"

	"github.com/rmatail/rmatail/bench"
)

// The best row of the published table that loses nothing: a queue of 65,536, batches
// of 64. Its others (a goroutine a record, batches of 1) are slower in both.
const (
	publishedRate  = 184_306 // records/s
	publishedP99us = 263_000
)

const (
	goroutinesMost = 20 // fewer, in every mode but direct
	// heapMost is what the appender may add to the heap: its queue's 4 MiB twice, and
	// what the experiment notes of each record.
	heapMost = 16 << 20
	// asFast is the share of another row's throughput that counts as the same: rounds
	// of one row differ by more.
	asFast = 0.97
	// heldFast is that where a write holds its thread: see the package comment.
	heldFast = 0.75
	// claimedFrom records on something is claimed: with few there is nothing to wait for.
	claimedFrom = 10_000
)

// claims says of all rows that were measured what the experiment is to show. What
// takes rows that were not measured, or more records, is left out.
func claims(rows []Row) (all []bench.Claim) {
	if len(rows) == 0 || rows[0].Offered < claimedFrom {
		return nil
	}
	claim := func(holds bool, text, measured string, args ...any) {
		all = append(all, bench.Claim{Text: text, Measured: fmt.Sprintf(measured, args...), Holds: holds})
	}
	for _, wait := range []Wait{Sleep, Exact, Held, Store} {
		find := func(mode Mode, room, batch int) (Row, bool) {
			for _, r := range rows {
				if r.Wait == wait && r.Mode == mode && (room == 0 || r.Cap == room) && (batch == 0 || r.Batch == batch) {
					return r, true
				}
			}
			return Row{}, false
		}
		direct, hasDirect := find(Direct, 0, 0)
		semaphore, hasSemaphore := find(Semaphore, 0, 0)
		one, hasOne := find(Queue, 65536, 1)
		many, hasMany := find(Queue, 65536, 64)
		own, hasOwn := find(Appender, 0, 0)
		if hasOne && hasMany && wait != Store { // the store's writes take longer with more in them
			ratio := many.RecordsPerSecond / max(one.RecordsPerSecond, 1e-9)
			claim(ratio > 30 && one.Dropped+many.Dropped == 0, fmt.Sprintf("wait %s: batches of 64 write over 30 times as many records a second as batches of 1, none dropped", wait),
				"%.0f times, %d dropped of %d", ratio, one.Dropped+many.Dropped, one.Offered)
		}
		if hasOwn && wait == Sleep { // as published
			claim(own.Dropped == 0 && own.RecordsPerSecond > publishedRate && own.E2E.P99 < publishedP99us,
				"wait sleep: the appender loses nothing and beats every published row that does not in throughput (184,306/s) and p99 (263 ms)",
				"%.0f/s, p99 %.1f ms, %d dropped", own.RecordsPerSecond, own.E2E.P99/1e3, own.Dropped)
		}
		if hasOwn && hasMany {
			ratio := own.RecordsPerSecond / max(many.RecordsPerSecond, 1e-9)
			share := asFast
			if wait == Held || wait == Store {
				share = heldFast
			}
			claim(ratio >= share && own.E2E.P99 < many.E2E.P99 && own.Dropped == 0, fmt.Sprintf("wait %s: the appender is as fast as the queue of 65,536 x 64 (%.0f %% or more), with a lower p99", wait, 100*share),
				"%.0f/s of %.0f/s (%.0f %%), p99 %.1f ms of %.1f ms", own.RecordsPerSecond, many.RecordsPerSecond, 100*ratio, own.E2E.P99/1e3, many.E2E.P99/1e3)
		}
		if hasOwn {
			grew := own.HeapMax - min(own.HeapBefore, own.HeapMax)
			claim(grew < heapMost, fmt.Sprintf("wait %s: the appender's heap is bounded by its queue's bytes", wait), "%.1f MB more than before, limit %.1f MB", float64(grew)/1e6, float64(heapMost)/1e6)
		}
		if hasDirect && hasSemaphore {
			claim(direct.GoroutinesMax > uint64(direct.Offered/4) && direct.E2E.P99 > 20*semaphore.E2E.P99, fmt.Sprintf("wait %s: a goroutine a record collapses: they pile up, and p99 is over 20 times that of a semaphore", wait),
				"%d goroutines for %d records, p99 %.0f ms of %.1f ms", direct.GoroutinesMax, direct.Offered, direct.E2E.P99/1e3, semaphore.E2E.P99/1e3)
		}
		most := Row{}
		for _, r := range rows {
			if r.Wait == wait && r.Mode != Direct && r.GoroutinesMax > most.GoroutinesMax {
				most = r
			}
		}
		if most.GoroutinesMax > 0 {
			claim(most.GoroutinesMax < goroutinesMost, fmt.Sprintf("wait %s: fewer than %d goroutines in every other mode", wait, goroutinesMost),
				"at most %d (%s), %d of them before the row", most.GoroutinesMax, most.Name(), most.GoroutinesBefore)
		}
	}
	return all
}
