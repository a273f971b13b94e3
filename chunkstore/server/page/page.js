"use strict";
// Everything that comes from the node is shown as text, never as markup: see text().
(() => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const SPAN = 180_000; // charts show three minutes
  const MINUTE = 60_000;
  const ROWS = 200; // of shards that are drawn
  const LATE = 3, LOST = 8; // seconds without a sample after which it is late, and the page of the past
  // Of each state: its level, its name, and where to look next.
  const states = {
    unknown: ["wait", "not known yet", ""], fine: ["good", "fine", ""],
    producer_stopped: ["warn", "producer stopped", "Is its process alive? Its log says why it ended."],
    producer_slow: ["warn", "producer slow", "Look at the producer's host: processor time, and the queue in rmatail_producer_queue_seconds."],
    cache_missing: ["bad", "cache missing", "Look below for a node that is away, empty or full. Bytes are safe, and come from the durable store."],
    durable_throttled: ["bad", "durable throttled", "Look at the store's disk: full, failing or shared? rmatail bench sink --real DIR measures it."],
    transport_degraded: ["warn", "transport degraded", "rmatail doctor --peer NODE on the consumer's host says what is wrong and what mends it."],
    consumer_slow: ["warn", "consumer slow", "The bytes are there: profile the consumer, or split its shards over more processes."],
  };
  const order = { bad: 0, warn: 1, wait: 2, good: 3 };
  const points = []; // Totals of the watcher, the oldest first
  const history = { shard: new Map(), node: new Map(), consumer: new Map() }; // name -> [[time, value]...]
  let frame = null, received = 0;

  // --- Numbers for people.

  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  function bytes(n) {
    let u = 0;
    for (; n >= 1023.5 && u < units.length - 1; u++) n /= 1024;
    return [u === 0 || n >= 99.5 ? n.toFixed(0) : n.toFixed(1), units[u]];
  }
  const size = (n) => bytes(n).join(" ");
  const rate = (n) => (n > 0 ? bytes(n).join(" ") + "/s" : "0");
  function time(s) {
    if (s <= 0) return ["0", "s"];
    if (s < 0.9995e-3) return [(s * 1e6).toFixed(0), "µs"];
    if (s < 0.9995) return [(s * 1e3).toFixed(s < 0.00995 ? 2 : s < 0.0995 ? 1 : 0), "ms"];
    if (s < 99.5) return [s.toFixed(s < 9.95 ? 1 : 0), "s"];
    if (s < 5400) return [(s / 60).toFixed(0), "min"];
    if (s < 129600) return [(s / 3600).toFixed(0), "h"];
    return [(s / 86400).toFixed(0), "d"];
  }
  const span = (s) => time(s).join(" ");
  const count = (n) => (n >= 1e4 ? (n / 1e3).toFixed(n >= 1e5 ? 0 : 1) + "k" : n.toFixed(n > 0 && n < 10 ? 1 : 0));
  const round = (text) => text.replace(/\.0+(?= )/, "");
  const percent = (x) => (100 * x).toFixed(x > 0.9995 || x < 0.0005 ? 0 : 1) + " %";

  // --- Elements. Written only when something changes, so that selections stay.

  function text(e, s) {
    if (e.textContent !== s) e.textContent = s;
  }
  function set(e, name, value) {
    if (e.getAttribute(name) !== value) e.setAttribute(name, value);
  }
  function make(tag, cls, content) {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    if (content !== undefined) e.textContent = content;
    return e;
  }
  function shape(tag, attributes) {
    const e = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  }
  function figure(id, [n, unit], more) {
    const e = $(id);
    if (!e.lastElementChild) e.replaceChildren(document.createTextNode(""), make("small"));
    if (e.firstChild.data !== n) e.firstChild.data = n;
    text(e.lastElementChild, more ? unit + " · " + more : unit);
  }
  // rows keeps one row of a table for each key, in the order of the keys.
  function rows(tbody, keys, cells) {
    const known = new Map([...tbody.children].map((tr) => [tr.dataset.key, tr]));
    keys.forEach((key, i) => {
      let tr = known.get(key);
      if (!tr) {
        tr = make("tr");
        tr.dataset.key = key;
        for (const [cls, label] of cells) {
          const td = make("td", cls);
          td.dataset.label = label;
          tr.append(td);
        }
      }
      known.delete(key);
      if (tbody.children[i] !== tr) tbody.insertBefore(tr, tbody.children[i] || null);
    });
    for (const tr of known.values()) tr.remove();
    return [...tbody.children];
  }
  function pill(td, level, words, why) {
    if (!td.firstElementChild) td.append(make("span", "pill"), make("span", "sub"));
    set(td.firstElementChild, "data-level", level);
    text(td.firstElementChild, words);
    text(td.lastElementChild, why || "");
  }
  function named(td, name, sub) {
    if (!td.firstChild) td.append(document.createTextNode(""), make("small"));
    if (td.firstChild.data !== name) td.firstChild.data = name;
    text(td.lastElementChild, sub);
  }
  function cell(td, s, cls) {
    text(td, s);
    td.classList.toggle("quiet", s === "0" || s === "–" || cls === "quiet");
    td.classList.toggle("alarm", cls === "alarm");
  }

  // --- Lines.

  // spark draws values over the last span milliseconds, from zero.
  function spark(svg, series, now, length, color) {
    const w = 120, h = 30;
    if (!svg.firstChild) {
      svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
      svg.setAttribute("preserveAspectRatio", "none");
      svg.append(shape("path", { class: "area c-" + color }), shape("path", { class: "line c-" + color }));
      svg.lastChild.setAttribute("fill", "none");
    }
    const from = now - length, seen = series.filter((p) => p[0] >= from && p[1] !== null);
    const top = Math.max(...seen.map((p) => p[1]), 0) || 1;
    const x = (t) => (((t - from) / length) * w).toFixed(1), y = (v) => (h - 1.5 - (v / top) * (h - 4)).toFixed(1);
    const strokes = split(seen).map((r) => [r, "M" + r.map(([t, v]) => x(t) + "," + y(v)).join("L")]);
    set(svg.lastChild, "d", strokes.map(([, d]) => d).join(""));
    set(svg.firstChild, "d", strokes.map(([r, d]) => `${d}L${x(r.at(-1)[0])},${h}L${x(r[0][0])},${h}Z`).join(""));
  }
  // split cuts a series where nobody has looked.
  function split(series) {
    const all = [];
    let last = -Infinity;
    for (const p of series) {
      if (p[0] - last > 5000) all.push([]);
      all.at(-1).push(p);
      last = p[0];
    }
    return all;
  }
  function remember(map, name, now, value) {
    let series = map.get(name);
    if (!series) map.set(name, (series = []));
    while (series.length && series.at(-1)[0] >= now) series.pop(); // the node's clock was set back
    series.push([now, value]);
    while (series[0][0] < now - MINUTE - 2000) series.shift();
    return series;
  }
  function forget(map, names) {
    for (const name of map.keys()) if (!names.has(name)) map.delete(name);
  }

  // chart draws the frame of a chart, and returns its plot: x and y in its pixels.
  function chart(svg, ticks, low, high, log) {
    const w = svg.clientWidth || 600, h = svg.clientHeight || 168, left = 66, bottom = 20;
    svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
    svg.replaceChildren();
    const scale = log ? Math.log10 : (v) => v;
    const y = (v) => 8 + (h - bottom - 8) * (1 - (scale(Math.max(v, low)) - scale(low)) / (scale(high) - scale(low) || 1));
    const now = points.length ? points.at(-1).time_ms : 0;
    const x = (t) => left + (w - left - 4) * (1 - (now - t) / SPAN);
    for (const [v, label] of ticks) {
      svg.append(shape("line", { class: "grid", x1: left, x2: w - 4, y1: y(v), y2: y(v) }));
      const e = shape("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" });
      e.textContent = label;
      svg.append(e);
    }
    for (const [back, label] of [[SPAN, "3 min ago"], [SPAN / 2, "90 s"], [0, "now"]]) {
      const e = shape("text", { x: x(now - back), y: h - 4, "text-anchor": back === SPAN ? "start" : back ? "middle" : "end" });
      e.textContent = label;
      svg.append(e);
    }
    return { x, y, base: h - bottom };
  }
  // runs are the runs of a value of the points, where there is one.
  const runs = (value) => split(points.map((p) => [p.time_ms, value(p)]).filter((p) => p[1] !== null && p[1] !== undefined));
  function line(svg, plot, value, cls) {
    const d = runs(value).map((r) => (r.length === 1 ? r.concat([[r[0][0] + 400, r[0][1]]]) : r))
      .map((r) => "M" + r.map(([t, v]) => `${plot.x(t).toFixed(1)},${plot.y(v).toFixed(1)}`).join("L")).join("");
    const path = shape("path", { class: "line " + cls, d });
    path.setAttribute("fill", "none");
    svg.append(path);
  }

  function latency() {
    const values = points.flatMap((p) => [p.ack, p.append]).filter(Boolean).flatMap((q) => [q.p50, q.p99]).filter((v) => v > 0);
    const low = Math.pow(10, Math.floor(Math.log10(Math.min(...values, 1e-3)))), high = Math.pow(10, Math.ceil(Math.log10(Math.max(...values, 1e-3) * 1.01)));
    const ticks = [];
    for (let v = low; v <= high * 1.001; v *= 10) ticks.push([v, round(span(v * 1.0001))]);
    const svg = $("latency-chart"), plot = chart(svg, ticks, low, high, true);
    line(svg, plot, (p) => p.append && p.append.p50, "c-teal thin");
    line(svg, plot, (p) => p.append && p.append.p99, "c-teal");
    line(svg, plot, (p) => p.ack && p.ack.p50, "c-blue thin");
    line(svg, plot, (p) => p.ack && p.ack.p99, "c-blue");
    const last = points.at(-1) || {}, now = (q, k) => (q ? span(q[k]) : "–");
    legend("latency-legend", [["blue", "ack p99", now(last.ack, "p99")], ["blue dash", "p50", now(last.ack, "p50")], ["teal", "disk p99", now(last.append, "p99")], ["teal dash", "p50", now(last.append, "p50")]]);
  }

  // By nodes, if no consumer tells; else by consumers, who see what no node does.
  const byNodes = [["violet", "memory over TCP", (p) => p.tcp_bytes], ["warn", "durable store, to readers", (p) => p.durable_bytes], ["teal", "durable store, into memory", (p) => p.fill_bytes]];
  const told = (source) => (p) => (p.delivered || {})[source] || 0;
  const byConsumers = [["blue", "shared memory", told("shm")], ["teal", "RDMA", told("rdma")], ["violet", "TCP", told("tcp")], ["warn", "durable store", told("durable")]];
  const delivered = (p) => byConsumers.reduce((n, s) => n + s[2](p), 0);
  function served(f) {
    const sources = f.reporting > 0 ? byConsumers : byNodes, sum = (p) => sources.reduce((n, s) => n + s[2](p), 0);
    const top = Math.max(...points.map(sum), 1024) * 1.05;
    const step = Math.pow(2, Math.floor(Math.log2(top / 2))), ticks = [];
    for (let v = 0; v <= top; v += step) ticks.push([v, round(rate(v))]);
    const svg = $("source-chart"), plot = chart(svg, ticks, 0, top, false);
    sources.forEach(([color], i) => {
      const to = (p) => sources.slice(0, i + 1).reduce((n, s) => n + s[2](p), 0), from = (p) => sources.slice(0, i).reduce((n, s) => n + s[2](p), 0);
      const upper = runs(to), lower = runs(from);
      const d = upper.map((r, k) => "M" + r.map(([t, v]) => `${plot.x(t).toFixed(1)},${plot.y(v).toFixed(1)}`)
        .concat(lower[k].toReversed().map(([t, v]) => `${plot.x(t).toFixed(1)},${plot.y(v).toFixed(1)}`)).join("L") + "Z").join("");
      svg.append(shape("path", { class: "area solid c-" + color, d }));
    });
    const last = points.at(-1) || {};
    legend("source-legend", last.time_ms ? sources.map(([color, label, value]) => [color, label, rate(value(last))]) : []);
    const maps = f.nodes.reduce((a, n) => a + n.mappings, 0), qps = f.nodes.reduce((a, n) => a + n.queue_pairs, 0);
    const held = `${maps} ${maps === 1 ? "mapping" : "mappings"} and ${qps} queue ${qps === 1 ? "pair" : "pairs"} are held`;
    text($("source-note"), f.reporting > 0
      ? `${f.reporting === 1 ? "What the consumer that reports has had delivered, by its own account" : `What the ${f.reporting} consumers that report have had delivered, by their own account`}. Reads over shared memory and RDMA pass no node: ${held}.`
      : `What the nodes serve. Reads over shared memory and RDMA pass no node, and are in none of these rates: ${held}. Consumers that report would tell.`);
  }
  function legend(id, entries) {
    const ul = $(id);
    while (ul.children.length > entries.length) ul.lastChild.remove();
    while (ul.children.length < entries.length) {
      const li = make("li");
      li.append(make("i"), document.createTextNode(""), make("b"));
      li.firstChild.setAttribute("aria-hidden", "true");
      ul.append(li);
    }
    entries.forEach(([color, label, value], i) => {
      const li = ul.children[i];
      if (li.firstChild.className !== color) li.firstChild.className = color;
      if (li.childNodes[1].data !== label + " ") li.childNodes[1].data = label + " ";
      text(li.lastChild, value);
    });
  }

  // --- Parts of the page.

  function verdict(f) {
    const problems = [];
    for (const n of f.nodes) {
      if (!n.up) problems.push(["bad", n.name, `away${n.away > 1 ? " for " + span(n.away) : ""}: ${n.error || "no answer"}`]);
      else if (n.error) problems.push(["bad", n.name, n.error]);
      if (n.panics > 0) problems.push(["bad", n.name, `${n.panics} panics in connections: bugs, please report them`]);
      if (n.rates.pushed_out > 0) problems.push(["warn", n.name, `${count(n.rates.pushed_out)} extents a second leave memory before their time: the arena is too small`]);
      if (n.up && n.writes && n.writes !== "live" && n.writes !== "local") problems.push(["warn", n.name, `writers do not reach it (${n.writes}${n.reason ? ": " + n.reason : ""})`]);
    }
    if (f.store_error) problems.push(["bad", "durable store", f.store_error]);
    const bad = f.shards.filter((s) => order[level(s)] < 2).sort((a, b) => order[level(a)] - order[level(b)]);
    for (const s of bad.slice(0, 6)) problems.push([level(s), s.name, `${states[s.state][1]}: ${s.why}`, states[s.state][2]]);
    const more = bad.length > 6 ? bad.length - 6 : 0;
    problems.sort((a, b) => order[a[0]] - order[b[0]]);
    const up = f.nodes.filter((n) => n.up).length;
    const census = {};
    for (const s of f.shards) census[s.state] = (census[s.state] || 0) + 1;
    const shards = Object.entries(census).sort((a, b) => (a[0] === "fine" ? -1 : b[0] === "fine" ? 1 : b[1] - a[1])).map(([k, n]) => `${n} ${(states[k] || [0, k])[1]}`);
    text($("verdict-line"), `${up} of ${f.nodes.length} ${f.nodes.length === 1 ? "node" : "nodes"} up, ` +
      (f.shards.length ? `${f.shards.length}${f.more ? "+" : ""} ${f.shards.length === 1 ? "shard" : "shards"}: ${shards.join(", ")}` : "no shards"));
    set($("verdict"), "data-state", problems.length ? (problems[0][0] === "bad" ? "bad" : "warn") : "good");
    const ul = $("problems");
    while (ul.children.length > problems.length + (more ? 1 : 0)) ul.lastChild.remove();
    let said = "";
    problems.forEach(([lv, who, what, next], i) => {
      let li = ul.children[i];
      if (!li || !li.querySelector("b")) {
        const fresh = make("li");
        fresh.append(make("span", "pill"), document.createTextNode(" "), make("b"), make("span"), make("span", "next"));
        if (li) li.replaceWith(fresh); else ul.append(fresh);
        li = fresh;
      }
      set(li.children[0], "data-level", lv);
      text(li.children[0], lv === "bad" ? "look" : "note");
      text(li.children[1], who);
      text(li.children[2], what);
      text(li.children[3], next && next !== said ? next : ""); // once for all that follow
      said = next || said;
    });
    if (more) {
      const li = ul.children[problems.length] || ul.appendChild(make("li"));
      text(li, `and ${more} shards more, below`);
    }
  }
  // A producer that has ended in good order, or so long ago that nobody knows: nothing to look at.
  const level = (s) => (s.ended ? "wait" : (states[s.state] || ["wait"])[0]);

  function tiles(f) {
    const t = f.totals, p = bytes(t.append_bytes), worst = f.shards.reduce((m, s) => (s.lag > (m ? m.lag : 0) ? s : m), null);
    figure("t-append", [p[0], p[1] + "/s"]);
    const telling = f.reporting > 0, read = bytes(telling ? delivered(t) : t.tcp_bytes), durable = bytes(t.durable_bytes);
    text($("h-read"), telling ? "Delivered" : "Read over TCP");
    figure("t-read", [read[0], read[1] + "/s"], telling && t.read_p99 > 0 ? "p99 " + span(t.read_p99) : "");
    figure("t-durable", [durable[0], durable[1] + "/s"]);
    figure("t-lag", bytes(t.lag), worst ? (worst.lag_time > 0 ? "for " + span(worst.lag_time) : "") : "");
    figure("t-ack", t.ack ? time(t.ack.p99) : ["–", ""], t.ack ? "p50 " + span(t.ack.p50) : "");
    const held = f.nodes.reduce((n, k) => n + k.memory.used, 0) * 65536;
    figure("t-used", [percent(t.used).replace(" %", ""), "%"], size(held));
    const now = t.time_ms, of = (v) => points.map((q) => [q.time_ms, v(q)]);
    spark($("s-append"), of((q) => q.append_bytes), now, SPAN, "blue");
    spark($("s-read"), of((q) => (telling ? delivered(q) : q.tcp_bytes)), now, SPAN, "violet");
    spark($("s-durable"), of((q) => q.durable_bytes), now, SPAN, "warn");
    spark($("s-lag"), of((q) => q.lag), now, SPAN, "warn");
    spark($("s-ack"), of((q) => (q.ack ? q.ack.p99 : null)), now, SPAN, "blue");
    spark($("s-used"), of((q) => q.used), now, SPAN, "teal");
  }

  const shardCells = [["state", "State"], ["name", "Shard"], ["n", "Rate"], ["spark", "Last minute"], ["n", "Length"], ["n", "Lag"], ["n", "Heartbeat"], ["wide late", "Replicas behind"], ["wide late", "Writer"]];
  function shards(f) {
    for (const s of f.shards) remember(history.shard, s.name, f.time_ms, s.rate);
    forget(history.shard, new Set(f.shards.map((s) => s.name)));
    const wanted = $("filter").value.trim().toLowerCase();
    const shown = f.shards.filter((s) => !wanted || `${s.name} ${s.state} ${(states[s.state] || [0, ""])[1]}`.toLowerCase().includes(wanted))
      .sort((a, b) => order[level(a)] - order[level(b)] || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    const found = shown.length;
    shown.length = Math.min(found, ROWS);
    const trs = rows($("shard-table").tBodies[0], shown.map((s) => s.name), shardCells);
    shown.forEach((s, i) => {
      const td = trs[i].children;
      pill(td[0], level(s), (states[s.state] || [0, s.state])[1], s.state === "fine" ? "" : s.why);
      td[0].title = s.why;
      named(td[1], s.name, s.sealed ? "sealed" : s.first > 0 ? `kept from ${s.first.toLocaleString("en")}` : "");
      cell(td[2], rate(s.rate));
      if (!td[3].firstChild) td[3].append(shape("svg", { role: "img", "aria-label": "Rate over the last minute" }));
      spark(td[3].firstChild, history.shard.get(s.name), f.time_ms, MINUTE, "blue");
      cell(td[4], size(s.length));
      cell(td[5], s.lag > 0 ? size(s.lag) + (s.lag_time > 0 ? ` for ${span(s.lag_time)}` : "") : "0", s.lag > 0 && s.lag_time > 1 ? "alarm" : "");
      cell(td[6], s.heartbeat === null ? "–" : s.heartbeat < 1.5 ? "now" : span(s.heartbeat) + " ago");
      cell(td[7], (s.replicas || []).slice().sort((a, b) => (a.node < b.node ? -1 : 1)).map((r) => `${r.node} ${r.error ? "?" : r.lag > 0 ? size(r.lag) : "0"}`).join(" · "), (s.replicas || []).every((r) => !r.error && r.lag === 0) ? "quiet" : "");
      cell(td[8], s.writer || "–");
    });
    text($("shard-count"), (f.shards.length === found ? `${found}` : `${found} of ${f.shards.length}`) + (f.more ? ", the first by name" : ""));
    text($("shard-note"), found > ROWS ? `The first ${ROWS} are shown, those to look at before the others. The filter finds the rest.` : f.shards.length ? (found ? "" : "No shard has that in its name or state.") : f.store_error ? `The durable store does not say which shards there are: ${f.store_error}` : "The durable store has no shard yet: rmatail append makes the first.");
  }

  const nodeCells = [["state", "State"], ["name", "Node"], ["n", "Ping"], ["spark", "Last minute"], ["n", "Put"], ["n", "TCP reads"], ["n", "Durable"], ["n", "Hit rate"], ["n", "Missing"], ["n wide late", "Clients"], ["n", "Up for"]];
  function nodes(f) {
    for (const n of f.nodes) remember(history.node, n.name, f.time_ms, n.up ? n.round_trip : null);
    forget(history.node, new Set(f.nodes.map((n) => n.name)));
    const trs = rows($("node-table").tBodies[0], f.nodes.map((n) => n.name), nodeCells);
    f.nodes.forEach((n, i) => {
      const td = trs[i].children;
      pill(td[0], n.up ? (n.error ? "bad" : "good") : "bad", n.up ? "up" : "away", n.up ? "" : n.away > 1 ? "for " + span(n.away) : "");
      const roles = (n.roles || []).map((r) => (n.partial && r === "data" ? "partial data" : r)).concat(n.store ? ["durable store"] : [], n.name === f.self ? ["this page"] : []);
      named(td[1], n.name, (n.name === n.addr ? "" : n.addr + " · ") + roles.join(", "));
      cell(td[2], n.up ? span(n.round_trip) : "–");
      if (!td[3].firstChild) td[3].append(shape("svg", { role: "img", "aria-label": "Ping over the last minute" }));
      spark(td[3].firstChild, history.node.get(n.name), f.time_ms, MINUTE, "teal");
      cell(td[4], n.up ? (n.rates.put_bytes > 0 || n.writes ? rate(n.rates.put_bytes) : count(n.rates.puts) + " puts/s") : "–");
      cell(td[5], n.up ? rate(n.rates.tcp_bytes) : "–");
      cell(td[6], n.up ? (n.store || n.rates.durable_bytes > 0 ? rate(n.rates.durable_bytes) : "–") : "–");
      cell(td[7], n.up && n.hit_rate !== null ? percent(n.hit_rate) : "–", n.up && n.hit_rate !== null && n.hit_rate < 0.9 && !n.partial ? "alarm" : "");
      cell(td[8], n.missing === null ? "–" : n.missing > 0 ? size(n.missing) : "0");
      cell(td[9], n.up ? `${n.connections} tcp · ${n.shm ? "–" : n.mappings} shm · ${n.rdma ? "–" : n.queue_pairs} qp` : "–");
      td[9].title = n.up ? [n.shm ? `no shared memory: ${n.shm}` : "", n.rdma ? `no RDMA: ${n.rdma}` : ""].filter(Boolean).join("\n") : "";
      cell(td[10], n.up ? span(n.uptime) : "–");
    });
    text($("node-count"), `${f.nodes.filter((n) => n.up).length} of ${f.nodes.length} up`);
  }

  const consumerCells = [["state", "State"], ["name", "Consumer"], ["n", "Rate"], ["spark", "Last minute"], ["n left", "Over"], ["n", "Read p99"], ["n", "Shards"], ["wide late", "Worst of them"], ["n", "Lag"]];
  function consumers(f) {
    const key = (c) => c.node + " " + c.addr, rateOf = (c) => Object.values(c.rates || {}).reduce((a, b) => a + b, 0);
    for (const c of f.consumers) remember(history.consumer, key(c), f.time_ms, rateOf(c));
    forget(history.consumer, new Set(f.consumers.map(key)));
    const trs = rows($("consumer-table").tBodies[0], f.consumers.map(key), consumerCells);
    f.consumers.forEach((c, i) => {
      const td = trs[i].children, silent = c.age > 10;
      pill(td[0], silent ? "warn" : (states[c.state] || ["wait"])[0], silent ? "silent" : (states[c.state] || [0, c.state])[1], silent ? `no report for ${span(c.age)}` : c.state === "fine" ? "" : c.why);
      named(td[1], c.name, `${c.addr} · reports to ${c.node}`);
      cell(td[2], rate(rateOf(c)));
      td[2].title = Object.entries(c.rates || {}).map(([source, n]) => `${source} ${rate(n)}`).join(", ");
      if (!td[3].firstChild) td[3].append(shape("svg", { role: "img", "aria-label": "Rate over the last minute" }));
      spark(td[3].firstChild, history.consumer.get(key(c)), f.time_ms, MINUTE, "violet");
      cell(td[4], c.transport || "–");
      cell(td[5], c.p99 > 0 ? span(c.p99) : "–");
      cell(td[6], String(c.shards));
      cell(td[7], c.shard || "–");
      cell(td[8], c.lag > 0 ? size(c.lag) + (c.lag_time > 0 ? ` for ${span(c.lag_time)}` : "") : "0", c.lag > 0 && c.lag_time > 1 ? "alarm" : "");
    });
    text($("consumer-count"), f.reporting ? `${f.reporting} reporting${f.behind ? `, ${f.behind} in trouble` : ""}` : "");
    text($("consumer-note"), !f.reporting ? "None reports. rmatail tail does, and so does a process whose reader.Config has a Name."
      : f.reporting > f.consumers.length ? `Those that fare worst are shown, ${f.consumers.length} of ${f.reporting}.` : "");
    $("consumer-table").hidden = !f.reporting;
  }

  // --- The memory maps.

  function mix(a, b, x) {
    const p = (c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16));
    const [u, v] = [p(a), p(b)];
    return `rgb(${u.map((c, i) => Math.round(c + (v[i] - c) * x)).join(",")})`;
  }
  function palette() {
    const css = getComputedStyle(document.documentElement), v = (n) => css.getPropertyValue(n).trim();
    const live = Array.from({ length: 128 }, (_, i) => mix(v("--age0"), v("--age1"), Math.sqrt(i / 127)));
    return (c) => (c === 0 ? v("--empty") : c < 128 ? live[c] : v("--past"));
  }
  function memory(f) {
    const root = $("maps"), holders = f.nodes.filter((n) => !n.up || n.memory.ways > 0);
    const known = new Map([...root.children].map((d) => [d.dataset.key, d]));
    const color = palette();
    holders.forEach((n, i) => {
      let d = known.get(n.name);
      if (!d) {
        d = make("div", "map");
        d.dataset.key = n.name;
        const h = make("h3");
        h.append(make("b"), make("span"));
        const canvas = make("canvas");
        canvas.setAttribute("role", "img");
        const ages = make("div", "ages");
        ages.setAttribute("aria-hidden", "true");
        d.append(h, canvas, ages, make("p"));
      }
      known.delete(n.name);
      if (root.children[i] !== d) root.insertBefore(d, root.children[i] || null);
      d.classList.toggle("down", !n.up);
      text(d.querySelector("b"), n.name);
      if (!n.up) {
        text(d.querySelector("span"), "away: what it held is gone");
        text(d.querySelector("p"), "");
        return;
      }
      const m = n.memory, cells = Uint8Array.from(atob(m.cells || ""), (c) => c.charCodeAt(0));
      text(d.querySelector("span"), `${size(m.used * 65536)} of ${size(m.ways * 65536)}${m.ways > cells.length ? ` · 1 of ${Math.round(m.ways / cells.length)} shown` : ""}`);
      draw(d.querySelector("canvas"), cells, color);
      const n0 = cells.filter((c) => c > 0 && c < 32).length, n1 = cells.filter((c) => c >= 32 && c < 128).length, n2 = cells.filter((c) => c >= 128).length;
      const bar = d.querySelector(".ages"), share = (k) => (cells.length ? k / cells.length : 0);
      const parts = [[n0, color(8)], [n1, color(100)], [n2, color(200)]];
      while (bar.children.length < parts.length) bar.append(make("i"));
      parts.forEach(([k, c], j) => {
        bar.children[j].style.width = (100 * share(k)).toFixed(2) + "%";
        bar.children[j].style.background = c;
      });
      const words = `${percent(share(n0))} younger than ${span(m.ttl / 4)}, ${percent(share(n1))} up to ${span(m.ttl)}, ${percent(share(n2))} past it` + (m.used ? `; the oldest is ${span(m.oldest)} old` : "") +
        (n.tenants ? `. Memory of tenants, beside this: ${n.tenants.map((t) => `${t.name} ${size(t.used * 65536)} of ${size(t.ways * 65536)}`).join(", ")}` : "");
      text(d.querySelector("p"), words);
      set(d.querySelector("canvas"), "aria-label", `Memory of ${n.name}: ${words}`);
    });
    for (const d of known.values()) d.remove();
  }
  // draw makes a column of each set of 16 places.
  function draw(canvas, cells, color) {
    const rows = 16, columns = Math.max(Math.ceil(cells.length / rows), 1), pitch = Math.max(Math.floor(640 / columns), 10), step = 10;
    if (canvas.width !== columns * pitch || canvas.height !== rows * step) {
      canvas.width = columns * pitch;
      canvas.height = rows * step;
    }
    const g = canvas.getContext("2d");
    g.clearRect(0, 0, canvas.width, canvas.height);
    cells.forEach((c, i) => {
      g.fillStyle = color(c);
      g.fillRect(Math.floor(i / rows) * pitch, (i % rows) * step, pitch - 2, step - 2);
    });
  }

  // --- Life.

  function show() {
    const f = frame;
    if (!f) return;
    text($("cluster"), f.cluster || "");
    text($("self"), f.self ? "seen by " + f.self : "");
    document.title = `${f.nodes.some((n) => !n.up) || f.shards.some((s) => level(s) === "bad") ? "● " : ""}${f.cluster || f.self || "node"} – rmatail`;
    if (["lost", "full"].includes($("live").dataset.state)) stale(); else verdict(f);
    tiles(f);
    shards(f);
    consumers(f);
    nodes(f);
    latency();
    served(f);
    memory(f);
  }
  function live(state, words) {
    set($("live"), "data-state", state);
    set(document.body, "data-live", state);
    text($("live-text"), words);
  }
  // stale says that what is shown is of the past.
  function stale() {
    set($("verdict"), "data-state", "bad");
    text($("verdict-line"), "This node does not answer" + ($("live").dataset.state === "full" ? ", or too many look at its page already. " : ". ") +
      (received ? `Below is what it said ${span(Math.round((performance.now() - received) / 1000))} ago.` : ""));
    $("problems").replaceChildren();
  }
  function connect() {
    const source = new EventSource("events");
    source.addEventListener("history", (e) => {
      points.splice(0, points.length, ...JSON.parse(e.data));
    });
    source.addEventListener("frame", (e) => {
      const f = JSON.parse(e.data);
      if (!f.nodes) return live("lost", f.error || "no sample");
      received = performance.now();
      f.consumers = f.consumers || [];
      frame = f;
      while (points.length && points.at(-1).time_ms >= f.time_ms) points.pop(); // the node's clock was set back
      if (f.window > 0) points.push(f.totals);
      while (points.length && points[0].time_ms < f.time_ms - SPAN - 2000) points.shift();
      live("live", "live");
      if (!document.hidden) show();
    });
    source.onerror = () => {
      const refused = source.readyState === EventSource.CLOSED; // it was answered with an error
      live(refused ? "full" : "lost", "trying again");
      stale();
      if (refused) setTimeout(connect, 2000);
    };
  }
  // A node that hangs ends no connection: the time tells.
  setInterval(() => {
    const age = (performance.now() - received) / 1000, state = $("live").dataset.state;
    if (state === "lost" || state === "full") return stale();
    if (!received || age <= LATE) return;
    if (age <= LOST) return live("late", `last sample ${span(age)} ago`);
    live("lost", "no samples");
    stale();
  }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) show(); });
  $("filter").addEventListener("input", show);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  connect();
})();
