package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	web "github.com/rmatail/rmatail/chunkstore/server/page"
	"github.com/rmatail/rmatail/chunkstore/watch"
)

// framed is a page in a browser that shows what it is given.
func framed(t *testing.T, b *browser, frame func(n int) *watch.Frame) {
	t.Helper()
	var n atomic.Int64
	p, err := web.New(web.Config{Every: 100 * time.Millisecond, Snapshot: func(context.Context) web.Sample {
		f := frame(int(n.Add(1)))
		return web.Sample{Frame: f, Point: f.Totals}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		b.open("about:blank")
		p.Close()
		s.Close()
	})
	b.open(s.URL)
}

// aFrame has one node and so many shards, all fine.
func aFrame(n, shards int) *watch.Frame {
	now := time.Now().UnixMilli()
	f := &watch.Frame{Time: now, Window: 1, Cluster: "test", Self: "n1", Totals: watch.Totals{Time: now}, Shards: []watch.Shard{},
		Nodes: []watch.Node{{Name: "n1", Addr: "n1:7471", Roles: []string{"data", "metadata"}, Up: true, Memory: watch.Memory{Ways: 1024, Cells: make([]byte, 1024)}}}}
	beat := 0.1
	for i := range shards {
		f.Shards = append(f.Shards, watch.Shard{Name: fmt.Sprintf("many/%04d", i), State: cause.Fine, Why: "heartbeat 100ms old", Length: uint64(n) * 1000, Rate: float64(i), Heartbeat: &beat,
			Writer: "host", Replicas: []watch.Replica{{Node: "n3"}, {Node: "n1"}, {Node: "n2"}}})
	}
	return f
}

// TestRealPageWithNothing: a node without shards, and without a store.
func TestRealPageWithNothing(t *testing.T) {
	b := openBrowser(t)
	b.look(1440, 900, "light")
	framed(t, b, func(n int) *watch.Frame { return aFrame(n, 0) })
	b.until("that there is no shard", `document.getElementById("verdict-line").textContent === "1 of 1 node up, no shards" && document.getElementById("shard-note").textContent.includes("rmatail append")`)
	b.until("more than one frame", `document.querySelectorAll("#source-chart text").length > 2`)
	b.shot("empty-light")
	b.sane()
}

// TestRealPageOfManyShards: of a thousand the one in trouble is on top, the rows that are
// drawn are bounded, the filter finds the others, and a frame is drawn in less than the
// second that there is for it.
func TestRealPageOfManyShards(t *testing.T) {
	b := openBrowser(t)
	b.look(1440, 900, "dark")
	framed(t, b, func(n int) *watch.Frame {
		f := aFrame(n, 1000)
		f.More = true
		s := &f.Shards[900]
		s.State, s.Why = cause.CacheMissing, "0 replicas of its length page answer"
		f.Shards[901].State, f.Shards[901].Ended, f.Shards[901].Why = cause.ProducerStopped, true, "1 byte, which does not grow"
		return f
	})
	first := `document.querySelector("#shard-table tbody tr")`
	b.until("the one in trouble on top", first+`.dataset.key === "many/0900" && document.getElementById("verdict").dataset.state === "bad"`)
	b.until("how many there are", `document.getElementById("verdict-line").textContent.includes("1000+ shards: 998 fine") && document.getElementById("shard-count").textContent.startsWith("1000, the first")`)
	if n := eval[int](b, `document.querySelectorAll("#shard-table tbody tr").length`); n != 200 {
		t.Errorf("%d rows are drawn", n)
	}
	if p := eval[string](b, `document.getElementById("problems").textContent`); strings.Contains(p, "many/0901") || !strings.Contains(p, "many/0900") {
		t.Errorf("to look at is %q", p)
	}
	if r := eval[string](b, first+`.children[7].textContent`); r != "n1 0 · n2 0 · n3 0" {
		t.Errorf("replicas are %q", r)
	}
	b.shot("many-dark")
	filter := `(() => { const f = document.getElementById("filter"); f.value = %q; const t = performance.now(); f.dispatchEvent(new Event("input")); return performance.now() - t })()`
	took := eval[float64](b, fmt.Sprintf(filter, ""))
	if took > 900 {
		t.Errorf("a frame of 1000 shards is drawn in %.0f ms", took)
	}
	t.Logf("report: a frame of 1000 shards is drawn in %.0f ms", took)
	eval[float64](b, fmt.Sprintf(filter, "many/0777"))
	b.until("one that was not drawn", first+`.dataset.key === "many/0777" && document.getElementById("shard-count").textContent.startsWith("1 of 1000")`)
	eval[float64](b, fmt.Sprintf(filter, "nothing like that"))
	b.until("that there is none", `document.getElementById("shard-note").textContent.includes("No shard has that")`)
	b.sane()
}

// TestRealPageOfLongNames: the longest names, of everything, make no phone scroll to the
// side, and neither does any width between.
func TestRealPageOfLongNames(t *testing.T) {
	b := openBrowser(t)
	long := strings.Repeat("Wide-Name.", 25)
	framed(t, b, func(n int) *watch.Frame {
		f := aFrame(n, 2)
		f.Cluster, f.Self, f.StoreError = long, long, long
		f.Nodes = append(f.Nodes, watch.Node{Name: long, Addr: long, Error: long})
		f.Nodes[0].Name, f.Nodes[0].Addr, f.Nodes[0].Writes, f.Nodes[0].Reason = long+"2", long, "suspended", long
		f.Shards[0].Name, f.Shards[0].Writer, f.Shards[0].Why, f.Shards[0].State = long+"/0000", long, long, cause.ProducerSlow
		f.Shards[0].Replicas = []watch.Replica{{Node: long, Lag: 1 << 40}, {Node: long, Error: long}}
		return f
	})
	b.until("the names", `document.getElementById("verdict-line").textContent.includes("2 shards")`)
	for _, width := range []int64{320, 360, 520, 700, 861, 1024, 1101, 1440} {
		b.look(width, 900, "light")
		b.until("charts as wide as the window", fmt.Sprintf(`document.getElementById("latency-chart").viewBox.baseVal.width < %d`, width))
		if w := eval[int64](b, "document.documentElement.scrollWidth"); w > width {
			t.Errorf("a window of %d pixels has to scroll to %d: %s", width, w, eval[string](b, fmt.Sprintf(
				`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > %d).slice(0, 5).map((e) => e.tagName + "." + e.className + "#" + e.id).join(" ")`, width)))
		}
		b.shot(fmt.Sprintf("long-%d", width))
	}
	b.sane()
}

// TestRealPageAfterTheClockWasSetBack: the charts go on, and forget what seems to be of the
// future.
func TestRealPageAfterTheClockWasSetBack(t *testing.T) {
	b := openBrowser(t)
	b.look(1440, 900, "light")
	framed(t, b, func(n int) *watch.Frame {
		f := aFrame(n, 1)
		if n > 20 {
			f.Time -= 3_600_000
		}
		f.Totals.Time = f.Time
		f.Totals.Lag = uint64(n)
		f.Cluster = fmt.Sprintf("frame %d", n)
		return f
	})
	b.until("frames of before", `parseInt(document.getElementById("cluster").textContent.slice(6)) > 25`)
	far := eval[string](b, `(() => { for (const p of document.querySelectorAll("svg path.line")) for (const m of (p.getAttribute("d") || "").matchAll(/[ML]([-\d.]+),/g)) if (+m[1] > 1500) return p.parentNode.id + " " + m[1]; return "" })()`)
	if far != "" {
		t.Errorf("drawn beyond the border: %s", far)
	}
	if !eval[bool](b, `/M.*L/.test(document.querySelector("#s-lag .line").getAttribute("d"))`) {
		t.Error("the lines do not go on")
	}
	b.sane()
}
