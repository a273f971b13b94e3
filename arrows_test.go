package rmatail_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/rmatail/rmatail/"

// External modules, as prefixes of import paths.
const (
	xsys       = "golang.org/x/sys/"
	rdmamap    = "github.com/Mellanox/rdmamap"
	netlink    = "github.com/vishvananda/netlink"
	gopacket   = "github.com/google/gopacket"
	xnetbpf    = "golang.org/x/net/bpf"
	prometheus = "github.com/prometheus/client_golang/"
	kong       = "github.com/alecthomas/kong"
	mpb        = "github.com/vbauerster/mpb/v8"
	goleak     = "go.uber.org/goleak"
	rapid      = "pgregory.net/rapid"
	plot       = "gonum.org/v1/plot"
	histogram  = "github.com/HdrHistogram/hdrhistogram-go"
	goyaml     = "github.com/goccy/go-yaml"
	metricsql  = "github.com/VictoriaMetrics/metricsql"
	fsnotify   = "github.com/fsnotify/fsnotify"
	chromedp   = "github.com/chromedp/"
)

// arrows lists, for each package, everything outside the standard library that
// its code may import: packages of this module and external modules. A package
// that is not listed is a defect, and so is an import that is not.
var arrows = map[string][]string{
	".":                           {},
	"internal/bytesize":           {},
	"auth":                        {},
	"auth/testca":                 {},
	"internal/ipclock":            {xsys},
	"internal/spread":             {},
	"cgo/ibverbs":                 {},
	"rdma":                        {"cgo/ibverbs", "internal/ipclock", rdmamap, netlink, xsys},
	"rdma/roce":                   {gopacket},
	"rdma/local":                  {"internal/crccopy", xsys},
	"internal/crccopy":            {xsys},
	"chunkstore/layout":           {},
	"chunkstore":                  {"chunkstore/layout", "internal/ipclock", xsys},
	"chunkstore/placement":        {"chunkstore/layout"},
	"chunkstore/cause":            {},
	"chunkstore/cluster":          {"chunkstore/layout", "chunkstore/placement"},
	"chunkstore/cluster/file":     {"auth", "chunkstore/layout", "chunkstore/cluster", "internal/bytesize", goyaml, fsnotify},
	"chunkstore/survey":           {"chunkstore/cluster", "chunkstore/layout", "fallback/wire", "fallback/tcp", "fallback/durable", "chunkstore/cause"},
	"chunkstore/watch":            {"chunkstore/survey", "chunkstore/cause", "chunkstore/cluster", "fallback/wire", "fallback/durable"},
	"chunkstore/server/page":      {},
	"chunkstore/server":           {"auth", "chunkstore/watch", "chunkstore/server/page", "chunkstore", "chunkstore/layout", "chunkstore/cause", "chunkstore/cluster", "rdma", "rdma/local", "fallback/wire", "fallback/tcp", "fallback/durable", "producer", "internal/spread", prometheus, xsys},
	"fallback/wire":               {},
	"fallback/tcp":                {"fallback/wire"},
	"fallback/durable":            {"fallback/wire", xsys},
	"reader":                      {"rdma", "rdma/local", "fallback/wire", "fallback/tcp", "fallback/durable", "chunkstore/layout", "chunkstore/cluster", "chunkstore/cause", "internal/spread", "internal/crccopy", prometheus},
	"producer/record":             {},
	"chunkstore/server/logging":   {},
	"bench":                       {},
	"bench/child":                 {xsys},
	"bench/fanout":                {"bench", "bench/panels", "bench/child", "reader", "rdma", "rdma/local", "fallback/wire", "fallback/durable", "chunkstore/layout", histogram, xsys},
	"bench/read":                  {"bench", "bench/panels", "reader", "rdma", "rdma/local", "fallback/wire", "fallback/tcp", "fallback/durable", "chunkstore/layout", histogram, xsys},
	"bench/sink":                  {"bench", "producer", "fallback/durable", "fallback/wire", "chunkstore/layout", plot, xsys},
	"bench/chaos":                 {},
	"plan":                        {"reader", "chunkstore/layout"},
	"bench/scale":                 {"bench", "bench/panels", "plan", "reader", "chunkstore", "producer", "fallback/durable", "chunkstore/layout", "chunkstore/cluster"},
	"bench/panels":                {plot},
	"bench/service":               {"bench", "chunkstore/server/logging", "chunkstore", "chunkstore/server", "fallback/wire", "fallback/tcp"},
	"cmd/rmatail/internal/advise": {},
	"producer":                    {"fallback/wire", "fallback/durable", "chunkstore/layout", "chunkstore/cluster", prometheus},
	"cmd/rmatail":                 {"reader", "producer", "chunkstore/cluster", "chunkstore/cluster/file", "chunkstore/server/logging", "bench/read", "bench/fanout", "bench/sink", "bench/service", "chunkstore", "chunkstore/server", "chunkstore/layout", "rdma", "fallback/wire", "fallback/durable", "cmd/rmatail/internal/demo", "cmd/rmatail/internal/advise", "chunkstore/cause", "cmd/rmatail/internal/states", "cmd/rmatail/internal/follow", "chunkstore/survey", "internal/bytesize", "cmd/rmatail/internal/doctor", "cmd/rmatail/internal/trace", "bench", "chunkstore/watch", "auth", "plan", "bench/scale", "cmd/rmatail/internal/survey", kong, mpb, xsys, prometheus},
	"cmd/rmatail/internal/demo":   {"reader", "fallback/wire", "fallback/durable", xsys},
	"cmd/rmatail/internal/follow": {},
	"cmd/rmatail/internal/states": {"chunkstore/cause", "chunkstore/survey"},
	"cmd/rmatail/internal/doctor": {"cgo/ibverbs", "rdma", "rdma/local", "fallback/wire", "fallback/tcp", netlink, xsys},
	"cmd/rmatail/internal/trace":  {"rdma/roce", gopacket, xnetbpf, xsys},
	"scripts/lib/ring":            {},
	"deploy":                      {goyaml, metricsql}, // tests of the files in it, and nothing else
}

// testArrows are the external modules that every test may import. Tests may also
// import every package of this module but the benchmarks: a test of both ends of an arrow
// is often the point.
var testArrows = []string{goleak, rapid, gopacket, prometheus, xsys, netlink, chromedp}

// ban forbids that a package reaches another through any chain of imports.
type ban struct{ from, to, reason string }

// forbids says whether a ban is about two packages. Those of benchmarks are not
// about the command, which runs them, nor about benchmarks.
func (b ban) forbids(from, to string) bool {
	if b.reason == measures && (from == "cmd/rmatail" || benchmark(from)) {
		return false
	}
	return match(b.from, from) && match(b.to, to)
}

// measures is why only the command, which runs them, imports benchmarks.
const measures = "benchmarks measure the product; a product that needs them cannot be built without them"

// bans give the reasons behind the table. They are about code, not tests.
var bans = []ban{
	{"*", "bench", measures},
	{"*", "bench/*", measures},
	{"*", "auth/testca", "authorities for tests are in no product"},
	{"auth", "*", "who somebody is and what it may do depends on no protocol: both ends of each go by the same package"},
	{"fallback/*", "auth", "frames carry what proves an identity; whom to believe is the node's matter"},
	{"fallback/*", "rdma", "the fallbacks are what is left when RDMA does not work, or does not even build"},
	{"fallback/*", "cgo/*", "the fallbacks are what is left when RDMA does not work, or does not even build"},
	{"fallback/wire", "fallback/*", "frames know nothing of who sends them"},
	{"fallback/tcp", "fallback/durable", "arena reads and durable reads are two resorts: one must not need the other"},
	{"chunkstore/layout", "*", "the one owner of remote bytes stays pure: parsers of hostile memory are fuzzed without a system around them"},
	{"chunkstore", "rdma", "the cache is memory; who exports it over which transport is the server's matter"},
	{"chunkstore", "fallback/*", "the cache does not know the durable store: losing one must not touch the other"},
	{"producer/record", "*", "records are cut from bytes, whoever delivers them: producers and consumers both import it, and neither the other"},
	{"reader", "chunkstore", "reader and chunkstore share only the layout: what a reader takes for granted must be in the bytes, not in the server's code"},
	{"reader", "chunkstore/server", "reader and chunkstore share only the layout: what a reader takes for granted must be in the bytes, not in the server's code"},
	{"reader", "producer", "a consumer that is linked with the writing side could write"},
	{"producer", "rdma", "producers write through a node or a file; nothing is ever written one-sidedly"},
	{"producer", "chunkstore", "producers reach caches over the wire or through an interface that the server implements"},
	{"producer", "reader", "the writing side does not read its own stream back"},
	{"chunkstore/cluster", "chunkstore/cluster/file", "where a View comes from is the program's choice: a coordination service needs no YAML"},
	{"reader", "chunkstore/cluster/file", "a library is given a cluster.Source; the program that uses it chooses which"},
	{"producer", "chunkstore/cluster/file", "a library is given a cluster.Source; the program that uses it chooses which"},
	{"chunkstore/server", "chunkstore/cluster/file", "a library is given a cluster.Source; the program that uses it chooses which"},
	{"rdma", "chunkstore/*", "transports move bytes at offsets; they do not know what the bytes mean"},
	{"rdma", "fallback/*", "transports do not choose the next resort; the reader does"},
	{"rdma/local", "rdma", "shared memory works on hosts without any RDMA software"},
	{"rdma/local", "cgo/*", "shared memory works on hosts without any RDMA software"},
	{"chunkstore/server/logging", "*", "how lines are written concerns the command alone: libraries take a *slog.Logger, and an application brings its own"},
	{"chunkstore/cause", "*", "what is decided from facts is the same for a node, a Reader and a survey: none of them is imported"},
	{"cgo/ibverbs", "*", "the binding is thin and without policy"},
}

// imports are the import paths in a directory's code and in its test files.
type imports struct{ code, tests map[string]bool }

// TestImportsFollowTheArrows holds every package to arrows.
func TestImportsFollowTheArrows(t *testing.T) {
	graph := parse(t)
	for dir, in := range graph {
		allowed, listed := arrows[dir]
		if !listed {
			t.Errorf("package %s is not in the table: decide what it may import, write it down in DESIGN and here", dir)
			continue
		}
		for imp := range in.code {
			if imp == "C" && dir == "cgo/ibverbs" {
				continue
			}
			if imp == "C" {
				t.Errorf("%s imports C: only cgo/ibverbs may, so that one package holds all of the memory rules of cgo and everything else builds without a C compiler", dir)
				continue
			}
			if !std(imp) && !matches(allowed, imp) {
				t.Errorf("%s imports %s, which the table does not allow%s", dir, imp, why(dir, imp))
			}
		}
		for imp := range in.tests {
			internal := strings.HasPrefix(imp, module)
			if !std(imp) && !matches(allowed, imp) && !matches(testArrows, imp) && !(internal && !benchmark(strings.TrimPrefix(imp, module))) {
				t.Errorf("a test of %s imports %s, which no table allows", dir, imp)
			}
		}
	}
	for dir := range arrows {
		if _, ok := graph[dir]; !ok && len(graph) > 0 {
			t.Logf("the table has %s, which does not exist", dir)
		}
	}
}

// TestNoChainOfImportsBreaksABan follows imports of the code as far as they go.
func TestNoChainOfImportsBreaksABan(t *testing.T) {
	graph := parse(t)
	for from := range graph {
		for to, chain := range reach(graph, from) {
			for _, b := range bans {
				if to != from && b.forbids(from, to) {
					t.Errorf("%s reaches %s (%s), banned: %s", from, to, strings.Join(chain, " -> "), b.reason)
				}
			}
		}
	}
}

// TestTheTableAgreesWithTheBans keeps the two from contradicting each other.
func TestTheTableAgreesWithTheBans(t *testing.T) {
	for from, list := range arrows {
		for _, to := range list {
			for _, b := range bans {
				if b.forbids(from, to) {
					t.Errorf("the table lets %s import %s, which is banned: %s", from, to, b.reason)
				}
			}
		}
	}
}

// parse reads the imports of all Go files of the module, whatever their build
// constraints: an arrow holds on every platform. Modules inside it are others.
func parse(t *testing.T) map[string]imports {
	t.Helper()
	graph := map[string]imports{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != "." && err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(p))
		in, ok := graph[dir]
		if !ok {
			in = imports{code: map[string]bool{}, tests: map[string]bool{}}
			graph[dir] = in
		}
		for _, s := range f.Imports {
			imp, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasSuffix(name, "_test.go") {
				in.tests[imp] = true
			} else {
				in.code[imp] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(graph) < 2 {
		t.Fatalf("found %d packages: the test must run in the module's root", len(graph))
	}
	return graph
}

// benchmark says whether a package is one of the benchmarks.
func benchmark(dir string) bool { return match("bench", dir) || match("bench/*", dir) }

// reach returns the packages of this module that a package's code imports,
// directly or not, each with the chain that leads there.
func reach(graph map[string]imports, from string) map[string][]string {
	found := map[string][]string{}
	queue := [][]string{{from}}
	for len(queue) > 0 {
		chain := queue[0]
		queue = queue[1:]
		for imp := range graph[chain[len(chain)-1]].code {
			dir, internal := strings.CutPrefix(imp, module)
			if _, seen := found[dir]; internal && !seen {
				found[dir] = append(slices.Clone(chain), dir)
				queue = append(queue, found[dir])
			}
		}
	}
	return found
}

func why(from, imp string) string {
	to, internal := strings.CutPrefix(imp, module)
	if !internal {
		return ": each external module has the few packages that it is for"
	}
	for _, b := range bans {
		if b.forbids(from, to) {
			return ": " + b.reason
		}
	}
	return ""
}

// match says whether a pattern names a package: "*" each one, "x/*" those below
// x, else itself.
func match(pattern, dir string) bool {
	if pattern == "*" {
		return true
	}
	if below, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(dir, below+"/")
	}
	return pattern == dir
}

func matches(allowed []string, imp string) bool {
	for _, a := range allowed {
		if imp == module+a || imp == a || strings.HasPrefix(imp, strings.TrimSuffix(a, "/")+"/") && strings.Contains(a, ".") {
			return true
		}
	}
	return false
}

// std says whether an import path is of the standard library: only its first
// element never holds a dot. "C" is not.
func std(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return imp != "C" && !strings.Contains(first, ".")
}
