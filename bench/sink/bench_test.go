package sink

import (
	"strings"
	"testing"
)

// BenchmarkRow measures the rows that lose nothing and keep up, for benchstat: the
// store is made in the temporary directory (TMPDIR).
func BenchmarkRow(b *testing.B) {
	rows := []Row{{Mode: Queue, Cap: 65536, Batch: 64}, {Mode: Blocking, Cap: 256, Batch: 64}, {Mode: Appender}}
	for _, wait := range []Wait{Sleep, Exact, Held, Store} {
		for _, row := range rows {
			b.Run("wait="+wait.String()+"/row="+strings.ReplaceAll(row.Name(), " ", ""), func(b *testing.B) {
				dir := b.TempDir()
				var last Row
				for b.Loop() {
					res, err := Run(b.Context(), Config{Waits: []Wait{wait}, Rows: []Row{row}, Dir: dir})
					if err != nil {
						b.Fatal(err)
					}
					last = res.Rows[0]
				}
				b.ReportMetric(last.RecordsPerSecond, "records/s")
				b.ReportMetric(last.E2E.P99, "p99-us")
				b.ReportMetric(float64(last.GoroutinesMax), "goroutines")
			})
		}
	}
}
