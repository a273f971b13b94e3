package main

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// withPage gives the first node of a site a page, at an address that it keeps when it is
// started again.
func (s *site) withPage(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.write(t, strings.Replace(s.describe(len(s.nodes)), "arena: 8MiB", fmt.Sprintf("arena: 8MiB, http: %q", l.Addr().String()), 1))
	return "http://" + l.Addr().String() + "/"
}

// produce appends lines to a shard until stop is called, or the test ends.
func produce(t *testing.T, s *site, shard string) (stop func()) {
	t.Helper()
	c := commandFor(t, 3*patience, "append", "--cluster", s.file, shard)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer in.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			if _, err := fmt.Fprintf(in, "line %d of a test that goes on\n%s\n", n, strings.Repeat("x", 1000)); err != nil {
				return // the process has ended
			}
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(quit)
		<-ended
		if err := c.Wait(); err != nil {
			t.Errorf("the producer of %s: %v", shard, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// row is the row of a table, as an expression.
func row(table, key string) string {
	return fmt.Sprintf(`document.querySelector('#%s tbody tr[data-key="%s"]')`, table, key)
}

// TestRealPage is the page of a node of a cluster, in a browser: its figures change,
// a node that was killed is shown and so is its return, the page finds its own node
// again, names are text, and it fits a phone, light and dark.
func TestRealPage(t *testing.T) {
	b := openBrowser(t)
	s := startSite(t, 3, 0)
	s.life = 3 * patience
	url := s.withPage(t)
	for i := range s.nodes {
		s.start(t, i)
	}
	stopOrders := produce(t, s, "orders/0")
	stopClicks := produce(t, s, "clicks.eu-west/7")
	must(t, strings.NewReader("one line\n"), "append", "--cluster", s.file, "quiet/0")
	follow := commandFor(t, 3*patience, "tail", "--cluster", s.file, "orders/0", "--follow", "--transport", "tcp", "--from", "earliest")
	follow.Stdout = io.Discard
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endProcess(follow) })

	b.look(1440, 900, "light")
	b.open(url)
	b.until("all nodes and shards", `document.getElementById("verdict-line").textContent.startsWith("3 of 3 nodes up, 3 shards")`)
	b.until("the consumer, which reports", `/^tail \d+ at /.test(document.querySelector("#consumer-table tbody tr")?.children[1].textContent) && document.querySelector("#consumer-table tbody tr")?.children[4].textContent === "tcp" && document.getElementById("consumer-count").textContent === "1 reporting"`)
	b.until("what it has had delivered", `/[1-9].* KiB\/s/.test(document.querySelector("#consumer-table tbody tr")?.children[2].textContent) && document.getElementById("h-read").textContent === "Delivered" && /[1-9]/.test(document.getElementById("t-read").textContent)`)
	b.until("shards that are fine", row("shard-table", "orders/0000")+`.children[0].textContent.startsWith("fine")`)
	if m := eval[string](b, `(() => { const r = new XMLHttpRequest(); r.open("GET", "metrics", false); r.send(); return r.responseText })()`); !strings.Contains(m, `rmatail_node_connections{node="n1"}`) {
		t.Error("the metrics do not name the node as its cluster does")
	}
	length := eval[string](b, row("shard-table", "orders/0000")+".children[4].textContent")
	b.until("a length that grows", row("shard-table", "orders/0000")+".children[4].textContent !== "+fmt.Sprintf("%q", length))
	for _, tile := range []string{"t-append", "t-read", "t-ack", "t-used"} {
		b.until(tile+" in figures", fmt.Sprintf(`/^[1-9]/.test(document.getElementById(%q).textContent)`, tile))
	}
	b.until("lines of the charts", `document.querySelectorAll("#latency-chart .line[d^=M]").length === 4 && document.querySelector("#source-chart .area[d^=M]")`)
	b.until("three maps that are not empty", `[...document.querySelectorAll("#maps canvas")].filter((c) => /[1-9].*younger/.test(c.getAttribute("aria-label"))).length === 3`)
	if maps := eval[string](b, `document.getElementById("source-note").textContent`); !strings.Contains(maps, "pass no node") {
		t.Errorf("of reads that no node sees the page says %q", maps)
	}

	hostileOwner(t, s)
	b.until("that nobody publishes for the displaced writer", row("shard-table", "quiet/0000")+`.children[0].textContent.startsWith("producer stopped")`)
	b.until("what to do about it", `document.getElementById("problems").textContent.includes("Is its process alive?")`)
	b.until("the hostile owner, as text", row("shard-table", "quiet/0000")+`.children[8].textContent.includes("<img src=x")`)
	if n := eval[int](b, `document.querySelectorAll("main img, main script, main iframe").length + (window.hacked ? 100 : 0)`); n != 0 {
		t.Errorf("a name became markup: %d", n)
	}
	if eval[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.hacked = 1"; document.body.append(s); s.remove(); return !!window.hacked })()`) {
		t.Error("the policy lets a script run that is not the page's")
	}

	b.until("the filter's box", `document.getElementById("filter")`)
	eval[bool](b, `(() => { const f = document.getElementById("filter"); f.value = "clicks"; f.dispatchEvent(new Event("input")); return true })()`)
	b.until("one shard of three", `document.querySelectorAll("#shard-table tbody tr").length === 1 && document.getElementById("shard-count").textContent === "1 of 3"`)
	eval[bool](b, `(() => { const f = document.getElementById("filter"); f.value = ""; f.dispatchEvent(new Event("input")); return true })()`)
	b.shot("light")

	light := eval[string](b, "getComputedStyle(document.body).backgroundColor")
	b.look(1440, 900, "dark")
	b.until("another ground in the dark", fmt.Sprintf("getComputedStyle(document.body).backgroundColor !== %q", light))
	b.until("the maps drawn anew", `document.getElementById("live-text").textContent === "live"`)
	b.shot("dark")
	for _, scheme := range []string{"dark", "light"} {
		b.look(360, 800, scheme)
		b.until("charts as wide as the phone", `document.getElementById("latency-chart").viewBox.baseVal.width < 360`)
		if w := eval[int](b, "document.documentElement.scrollWidth"); w > 360 {
			t.Errorf("a phone of 360 pixels has to scroll to %d: %s", w, eval[string](b,
				`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > 360).slice(0, 5).map((e) => e.tagName + "." + e.className + "#" + e.id).join(" ")`))
		}
		b.shot("phone-" + scheme)
	}
	contrast(b)

	b.look(1440, 900, "dark")
	s.nodes[2].end(t, syscall.SIGKILL)
	b.until("the killed node", row("node-table", "n3")+`.children[0].textContent.startsWith("away") && document.getElementById("verdict-line").textContent.startsWith("2 of 3 nodes up") && document.getElementById("verdict").dataset.state === "bad"`)
	b.until("why it is away", `document.getElementById("problems").textContent.includes("refused")`)
	b.shot("killed-dark")
	s.start(t, 2)
	b.until("its return", row("node-table", "n3")+`.children[0].textContent.startsWith("up") && document.getElementById("verdict-line").textContent.startsWith("3 of 3 nodes up")`)

	s.nodes[0].end(t, syscall.SIGKILL) // the page's own
	b.until("that the page's node is lost", `document.getElementById("live").dataset.state === "lost" && document.getElementById("verdict").dataset.state === "bad" && document.getElementById("verdict-line").textContent.includes("does not answer. Below is what it said")`)
	b.look(1440, 900, "light")
	b.shot("lost-light")
	s.start(t, 0)
	b.until("life again", `document.getElementById("live").dataset.state === "live" && document.getElementById("verdict-line").textContent.startsWith("3 of 3 nodes up")`)
	s.nodes[0].cmd.Process.Signal(syscall.SIGSTOP) // its connections stay, and nothing comes
	b.until("that a node which hangs does not answer", `document.getElementById("live").dataset.state === "lost" && document.getElementById("verdict").dataset.state === "bad"`)
	s.nodes[0].cmd.Process.Signal(syscall.SIGCONT)
	b.until("life after that", `document.getElementById("live").dataset.state === "live" && document.getElementById("verdict-line").textContent.startsWith("3 of 3 nodes up")`)
	b.sane()
	stopOrders() // while there is a node to append to
	stopClicks()
}

// hostileOwner takes the lease of a shard whose writer has ended, on all nodes, for
// somebody with a name of markup: the one name that may have any bytes.
func hostileOwner(t *testing.T, s *site) {
	t.Helper()
	for _, addr := range s.addrs {
		takeLease(t, addr, layout.Shard{Stream: "quiet"}.String(), `<img src=x onerror="window.hacked=1"><script>`, time.Minute)
	}
}

// takeLease takes a shard from its writer, at one node, for one who never beats.
func takeLease(t *testing.T, addr, shard, owner string, ttl time.Duration) {
	t.Helper()
	c, err := wire.Dial(t.Context(), addr, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := wire.Lease{Action: wire.LeaseAcquire, Ballot: wire.Ballot{Sequence: 1 << 40, Nonce: 1}, TTL: ttl, Owner: []byte(owner), Shard: []byte(shard)}
	head, err := l.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), wire.OpLease, head, nil); err != nil {
		t.Fatal(err)
	}
}

// contrast holds the page's colours to WCAG's 4.5 for text.
func contrast(b *browser) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.look(1440, 900, scheme)
		bad := eval[[]string](b, `(() => {
			const rgb = (c) => c.match(/[\d.]+/g).map(Number);
			const lum = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
			const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
			const bad = [];
			for (const e of document.querySelectorAll("body *")) {
				if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.offsetParent) continue;
				const s = getComputedStyle(e), a = lum(rgb(e instanceof SVGElement ? s.fill : s.color)), b = lum(ground(e));
				const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
				if (ratio < 4.5) bad.push(e.tagName + "." + e.className + " " + e.textContent.slice(0, 30) + " " + ratio.toFixed(2));
			}
			return bad;
		})()`)
		for _, e := range bad {
			b.t.Errorf("%s: contrast below 4.5: %s", scheme, e)
		}
	}
}

func endProcess(c *exec.Cmd) {
	_ = c.Process.Signal(syscall.SIGTERM) // it has ended
	_ = c.Wait()
}
