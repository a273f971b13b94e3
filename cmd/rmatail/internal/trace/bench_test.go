package trace

import (
	"testing"

	"github.com/rmatail/rmatail/rdma/roce"
)

// BenchmarkPacket is what a packet costs: decoding, ICRC and table.
func BenchmarkPacket(b *testing.B) {
	for name, keep := range map[string]int{"whole": 1 << 16, "headers": 128} {
		b.Run(name, func(b *testing.B) {
			tp, l := &tape{}, newLink()
			for i := range uint32(4096) {
				tp.add(us, l.request(i, 4096), l.responses(i, 4096)[0])
			}
			for i := range tp.frames {
				f := &tp.frames[i]
				f.Data = f.Data[:min(len(f.Data), keep)]
			}
			table := NewTable(0)
			var p roce.Packet
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				f := &tp.frames[n%len(tp.frames)]
				table.Add(&p, p.Decode(f.Link, f.Data), f.Length, f.Time)
				n++
			}
		})
	}
}
