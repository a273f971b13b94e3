package deploy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rmatail/rmatail/chunkstore/cause"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// TestRealMetricsAndFiles holds the rules, the dashboard and the documentation against
// what the product exposes.
func TestRealMetricsAndFiles(t *testing.T) {
	known := product(t)
	t.Logf("report: %d metrics", len(known))
	t.Run("alerts", func(t *testing.T) { alerts(t, known) })
	t.Run("dashboard", func(t *testing.T) { dashboard(t, known) })
	t.Run("docs", func(t *testing.T) { docs(t, known) })
}

type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

var (
	alertName = regexp.MustCompile(`^Rmatail[A-Z][A-Za-z]+$`)
	duration  = regexp.MustCompile(`^([1-9][0-9]*[smh])?$`)
	command   = regexp.MustCompile("`rmatail ([a-z]+)")
	labelUse  = regexp.MustCompile(`\{\{ \$labels\.([a-z_]+) \}\}`)
	byClause  = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
	cliField  = regexp.MustCompile("(?m)^\t([A-Z][A-Za-z]+) +[a-zA-Z]+ +`cmd:\"\"")
)

func alerts(t *testing.T, known map[string]metric) {
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.UnmarshalWithOptions(text, &r, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	commands, sections := commandsOf(t), sectionsOf(t, "../docs/troubleshooting.md")
	seen, missing := map[string]bool{}, map[string]bool{}
	for _, c := range causes {
		missing[c] = true
		if !slices.Contains(sections, c) {
			t.Errorf("docs/troubleshooting.md has no section on %s", c)
		}
	}
	for _, g := range r.Groups {
		for _, a := range g.Rules {
			if !alertName.MatchString(a.Alert) || seen[a.Alert] {
				t.Errorf("alert %q: its name, or there are two", a.Alert)
			}
			seen[a.Alert] = true
			for _, p := range problems(a.Expr, known) {
				t.Errorf("%s: %s", a.Alert, p)
			}
			if s := a.Labels["severity"]; s != "page" && s != "ticket" || len(a.Labels) != 1 {
				t.Errorf("%s: labels %v", a.Alert, a.Labels)
			}
			if !duration.MatchString(a.For) {
				t.Errorf("%s: for %q", a.Alert, a.For)
			}
			named := command.FindAllStringSubmatch(a.Annotations["runbook"], -1)
			if len(named) == 0 {
				t.Errorf("%s: no command in the runbook %q", a.Alert, a.Annotations["runbook"])
			}
			for _, c := range named {
				if !slices.Contains(commands, c[1]) {
					t.Errorf("%s: the runbook names rmatail %s, which is no command", a.Alert, c[1])
				}
			}
			var kept []string
			for _, by := range byClause.FindAllStringSubmatch(a.Expr, -1) {
				kept = append(kept, strings.Split(strings.ReplaceAll(by[1], " ", ""), ",")...)
			}
			for _, l := range labelUse.FindAllStringSubmatch(a.Annotations["summary"], -1) {
				if !slices.Contains(kept, l[1]) {
					t.Errorf("%s: the summary uses label %s, which the expression does not keep", a.Alert, l[1])
				}
			}
			url, linked := a.Annotations["runbook_url"]
			if n := len(a.Annotations); a.Annotations["summary"] == "" || n != 2 && !(linked && n == 3) {
				t.Errorf("%s: annotations %v", a.Alert, slices.Sorted(maps.Keys(a.Annotations)))
			}
			if where, section, _ := strings.Cut(url, "#"); linked && (!strings.HasSuffix(where, "/docs/troubleshooting.md") || !slices.Contains(sections, section)) {
				t.Errorf("%s: %s is no section of docs/troubleshooting.md: %v", a.Alert, url, sections)
			}
			if of := stateOf(a.Alert); slices.Contains(causes, of) && !strings.HasSuffix(url, "#"+of) {
				t.Errorf("%s: runbook_url %q, want the section of its state", a.Alert, url)
			}
		}
	}
	for name := range seen {
		delete(missing, stateOf(name))
	}
	if len(missing) > 0 {
		t.Errorf("no alert for the states %v", slices.Sorted(maps.Keys(missing)))
	}
	t.Logf("report: %d alerts", len(seen))
}

// causes are the states of package cause that somebody should look at.
var causes = func() (names []string) {
	for _, s := range cause.States() {
		if s.Bad() {
			names = append(names, s.String())
		}
	}
	return names
}()

var inner = regexp.MustCompile(`([a-z])([A-Z])`)

// stateOf is the state that an alert's name stands for, if it does.
func stateOf(alert string) string {
	return strings.ToLower(inner.ReplaceAllString(strings.TrimPrefix(alert, "Rmatail"), "${1}_${2}"))
}

var heading = regexp.MustCompile("(?m)^#+ `?([^`\\n]+)`?$")

// sectionsOf are the anchors of a document's headings.
func sectionsOf(t *testing.T, path string) (anchors []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		anchors = append(anchors, strings.ToLower(strings.ReplaceAll(m[1], " ", "-")))
	}
	return anchors
}

// commandsOf are the commands of cmd/rmatail.
func commandsOf(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../cmd/rmatail/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range cliField.FindAllStringSubmatch(string(text), -1) {
		names = append(names, strings.ToLower(m[1]))
	}
	if !slices.Contains(names, "stat") {
		t.Fatalf("commands %v", names)
	}
	return names
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ H, W, X, Y int }
	Targets []struct {
		Expr  string `json:"expr"`
		RefID string `json:"refId"`
	} `json:"targets"`
}

func dashboard(t *testing.T, known map[string]metric) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID, Title string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []panel
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	vars := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$shard", ".*")
	ids, cells, used := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its number is another one's, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		for y := g.Y; y < g.Y+g.H; y++ {
			for x := g.X; x < g.X+g.W; x++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies on %q, or beyond the border", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			used++
			expr := vars.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("panel %q: a variable that is not known in %s", p.Title, target.Expr)
			}
			for _, problem := range problems(expr, known) {
				t.Errorf("panel %q: %s: %s", p.Title, target.Expr, problem)
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Name == "instance" || v.Name == "shard" {
			for _, m := range namesIn(v.Definition) {
				if _, ok := known[m]; !ok {
					t.Errorf("variable %s: metric %s does not exist", v.Name, m)
				}
			}
		}
	}
	if used < 40 {
		t.Errorf("%d expressions", used)
	}
	t.Logf("report: dashboard of %d panels, %d expressions", len(d.Panels), used)
}

var alternatives = regexp.MustCompile(`__name__=~"([a-z_]*)\(([a-z_|]+)\)([a-z_]*)"`)

// namesIn are the metrics of a variable's query.
func namesIn(query string) (names []string) {
	m := alternatives.FindStringSubmatch(query)
	if m == nil {
		return []string{query}
	}
	for _, a := range strings.Split(m[2], "|") {
		names = append(names, m[1]+a+m[3])
	}
	return names
}

const metricsDoc = "../docs/metrics.md"

// docs holds the table of metrics against the product.
func docs(t *testing.T, known map[string]metric) {
	const begin, end = "<!-- table: go test ./deploy -update -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(metricsDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(text, []byte(begin))
	table, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no table", metricsDoc)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "| metric | kind | labels | what it is |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(known)) {
		m := known[name]
		if m.help == "" || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: help %q", name, m.help)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.kind, strings.Join(m.labels, ", "), m.help)
	}
	if *update {
		if err := os.WriteFile(metricsDoc, slices.Concat(head, []byte(begin), b.Bytes(), []byte(end), tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := strings.Split(b.String(), "\n")
	for _, line := range strings.Split(string(table), "\n") {
		if !slices.Contains(want, line) {
			t.Errorf("%s has %q, which the code does not", metricsDoc, line)
		}
	}
	if string(table) != b.String() {
		t.Errorf("%s is behind the code: go test ./deploy -update", metricsDoc)
	}
	for _, name := range namesOf(head, tail) {
		if _, ok := known[name]; !ok {
			t.Errorf("%s speaks of %s, which does not exist", metricsDoc, name)
		}
	}
}

var metricName = regexp.MustCompile("`(rmatail_[a-z0-9_]+)")

func namesOf(texts ...[]byte) (names []string) {
	for _, text := range texts {
		for _, m := range metricName.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// TestProblemsAreSeen: each of these is wrong in one way.
func TestProblemsAreSeen(t *testing.T) {
	known := map[string]metric{
		"a_total": {kind: "counter", labels: []string{"node", "source"}}, "g": {kind: "gauge", labels: []string{"node"}}, "s_seconds": {kind: "histogram"},
	}
	for expr, want := range map[string]string{
		`rate(a_total{source="x"}[5m])`:                       "",
		`sum by (source, instance) (rate(a_total[5m])) > 0.5`: "",
		`histogram_quantile(0.9, rate(s_seconds_bucket[5m]))`: "",
		`max by (node) (g or g{node="x"}) / 2`:                "",
		`rate(b_total[5m])`:                                   "does not exist",
		`rate(a_total{shard="x"}[5m])`:                        "no label shard",
		`sum by (shard) (rate(a_total[5m]))`:                  "no label shard to aggregate by",
		`a_total > 5`:                                         "a counter, in",
		`rate(g[5m])`:                                         "a gauge, in",
		`rate(a_total)`:                                       "a counter, in",
		`s_seconds`:                                           "does not exist",
		`rate(s_seconds_max[5m])`:                             "does not exist",
		`median(g)`:                                           "aggregation median",
		`range_quantile(0.5, g)`:                              "function range_quantile",
		`rate(a_total[5m:])`:                                  "window that Prometheus",
		`{node="x" or node="y"}`:                              "with or",
		`g default 5`:                                         "operator default",
		`sum(g`:                                               "unparsed",
	} {
		got := strings.Join(problems(expr, known), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) && want != "unparsed" || want == "unparsed" && got == "" {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
