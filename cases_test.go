package rmatail_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// casePages are the documents with a table of reported cases: a row begins with the
// ids of its cases, and names the tests that hold it.
var casePages = []struct {
	file  string
	home  string // package of the names before which no package is named
	cases int    // ids in the table: one that gets lost shows
}{
	{"docs/cases.md", "", 81},
	{"docs/doctor.md", "cmd/rmatail/internal/doctor", 70},
}

var (
	caseID    = regexp.MustCompile(`\bC\d+\b`)
	caseNames = regexp.MustCompile("`([^`]+)`|\\b((?:Test|Fuzz)\\w+)")
	caseCount = regexp.MustCompile(`: (\d+) cases\.`)
)

// caseRow is a row of a table.
type caseRow struct {
	ids   []string
	tests []string // package and name
	text  string   // besides ids and what was reported
	told  int      // how many cases the section says it has; 0: it does not
}

// caseRows reads the rows of a page. A word in backticks that is a package with tests
// says where the tests that follow it are.
func caseRows(page, home string, tests map[string]map[string]bool) (rows []caseRow) {
	told := 0
	for line := range strings.Lines(page) {
		if m := caseCount.FindStringSubmatch(line); m != nil {
			told, _ = strconv.Atoi(m[1])
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "| C") {
			continue
		}
		row := caseRow{ids: caseID.FindAllString(cells[1], -1), text: strings.TrimSpace(strings.Join(cells[3:], " ")), told: told}
		pkg := home
		for _, m := range caseNames.FindAllStringSubmatch(row.text, -1) {
			if m[2] != "" {
				row.tests = append(row.tests, pkg+" "+m[2])
			} else if tests[m[1]] != nil {
				pkg = m[1]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// goFiles calls f with each parsed Go file of the repository, those of the module
// deploy/check too.
func goFiles(t *testing.T, f func(name string, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err == nil {
			f(filepath.ToSlash(name), file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testNames returns the names of all tests and fuzz targets, by package.
func testNames(t *testing.T) map[string]map[string]bool {
	t.Helper()
	names := map[string]map[string]bool{}
	goFiles(t, func(name string, file *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := path.Dir(name)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				if names[dir] == nil {
					names[dir] = map[string]bool{}
				}
				names[dir][f.Name.Name] = true
			}
		}
	})
	return names
}

// TestReportedCases: the tables name tests that there are, no row is without one or a
// reason, each case has a row and a source, and nothing is there twice.
func TestReportedCases(t *testing.T) {
	tests := testNames(t)
	for _, page := range casePages {
		text, err := os.ReadFile(page.file)
		if err != nil {
			t.Fatal(err)
		}
		seen, sections := map[string]bool{}, map[int]int{}
		for _, row := range caseRows(string(text), page.home, tests) {
			sections[row.told] += len(row.ids)
			for _, id := range row.ids {
				if seen[id] {
					t.Errorf("%s: %s has two rows", page.file, id)
				}
				seen[id] = true
				if !strings.Contains(row.text, "https://") && !strings.Contains(strings.Join(strings.Fields(string(text)), " "), " "+id+": ") {
					t.Errorf("%s: %s has no source", page.file, id)
				}
			}
			for _, name := range row.tests {
				if pkg, test, _ := strings.Cut(name, " "); !tests[pkg][test] {
					t.Errorf("%s: %v: there is no %s in package %q", page.file, row.ids, test, pkg)
				}
			}
			if reason, _, _ := strings.Cut(row.text, "["); len(row.tests) == 0 && strings.TrimSpace(reason) == "" {
				t.Errorf("%s: %v has neither a test nor a reason", page.file, row.ids)
			}
		}
		if len(seen) != page.cases {
			t.Errorf("%s: %d cases, want %d: %v", page.file, len(seen), page.cases, slices.Sorted(maps.Keys(seen)))
		}
		for told, n := range sections {
			if told != 0 && told != n {
				t.Errorf("%s: a section of %d cases says that it has %d", page.file, n, told)
			}
		}
	}
}

// TestCallsWithConsequences lists the files that make calls whose consequences are
// elsewhere, each for a reason. Fd puts a descriptor into blocking mode and takes it
// from the poller, so it is for what is never waited for. A finalizer runs while C may
// use what it frees, and a locked thread is slow to hand over to: there are none but
// where a capability is a thread's for the time of one call.
func TestCallsWithConsequences(t *testing.T) {
	allowed := map[string]string{
		"fallback/durable/fsys.go Fd":       "regular files",
		"chunkstore/memory_linux.go Fd":     "a memfd",
		"cmd/rmatail/place.go Fd":           "a lock file",
		"rdma/local/listen_linux.go Fd":     "lock files, and a socket before it is a listener",
		"rdma/local/server_linux.go Fd":     "a memfd",
		"bench/fanout/map_unix.go Fd":       "a regular file",
		"internal/ipclock/do_linux.go Lock": "CAP_IPC_LOCK for one call",
	}
	calls := map[string]string{"Fd": "Fd", "SetFinalizer": "Finalizer", "AddCleanup": "Finalizer", "LockOSThread": "Lock"}
	found := map[string]bool{}
	goFiles(t, func(name string, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if to, ok := call.Fun.(*ast.SelectorExpr); ok && calls[to.Sel.Name] != "" {
				key := name + " " + calls[to.Sel.Name]
				if found[key] = true; allowed[key] == "" {
					t.Errorf("%s calls %s", name, to.Sel.Name)
				}
			}
			return true
		})
	})
	for key := range allowed {
		if !found[key] {
			t.Errorf("%s: there is no such call any more", key)
		}
	}
}
