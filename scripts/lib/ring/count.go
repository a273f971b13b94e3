package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
)

// event is one line of `go test -json` (go doc cmd/test2json).
type event struct {
	Action, Package, Test, ImportPath string
	Output, Key, Value                string
	Elapsed                           float64
}

// maxOutput bounds what is kept of one test's output.
const maxOutput = 1 << 20

// count holds the counts of a ring. Tests are counted at the top level, skips at
// every level.
type count struct {
	out                     io.Writer
	passed, failed, skipped int
	packages                map[string]*pkg
	builds                  map[string]*strings.Builder // output of compilers by import path
	skips                   []string
}

type pkg struct {
	tests   int
	open    map[string]bool // started, not ended
	output  map[string]*strings.Builder
	attrs   map[string][]string
	failing bool
}

func newCount(out io.Writer) *count {
	return &count{out: out, packages: map[string]*pkg{}, builds: map[string]*strings.Builder{}}
}

// events counts one stream. Lines that are no events are printed as they are.
func (c *count) events(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				c.event(e)
			} else {
				c.out.Write(line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *count) pkg(name string) *pkg {
	p := c.packages[name]
	if p == nil {
		p = &pkg{open: map[string]bool{}, output: map[string]*strings.Builder{}, attrs: map[string][]string{}}
		c.packages[name] = p
	}
	return p
}

func (c *count) event(e event) {
	if e.Package == "" { // build-output and build-fail carry an ImportPath only
		if e.Action == "build-output" {
			keep(c.builds, e.ImportPath, e.Output)
		}
		return
	}
	p := c.pkg(e.Package)
	switch e.Action {
	case "run":
		p.open[e.Test] = true
	case "output":
		keep(p.output, e.Test, e.Output)
	case "attr":
		p.attrs[e.Test] = append(p.attrs[e.Test], e.Key+"="+e.Value)
	case "pass", "fail", "skip":
		if e.Test == "" {
			c.endPackage(e, p)
			return
		}
		c.endTest(e, p)
	}
}

func (c *count) endTest(e event, p *pkg) {
	delete(p.open, e.Test)
	top := !strings.Contains(e.Test, "/")
	if top {
		p.tests++
	}
	switch {
	case e.Action == "skip":
		c.skipped++
		c.skips = append(c.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(p.output[e.Test])))
	case e.Action == "fail":
		p.failing = true
		if top {
			c.failed++
		}
		fmt.Fprintf(c.out, "FAIL  %s %s\n%s", e.Package, e.Test, text(p.output[e.Test]))
	case top:
		c.passed++
	}
	for _, l := range reports(p.output[e.Test]) {
		fmt.Fprintf(c.out, "      %s: %s\n", e.Test, l)
	}
	for _, a := range p.attrs[e.Test] {
		fmt.Fprintf(c.out, "      %s: %s\n", e.Test, a)
	}
	delete(p.output, e.Test)
}

func (c *count) endPackage(e event, p *pkg) {
	if e.Action == "fail" && (!p.failing || len(p.open) > 0) { // a panic, os.Exit, a leak in TestMain, or no build
		c.failed += max(len(topLevel(p.open)), 1)
		for _, name := range append(topLevel(p.open), "") {
			fmt.Fprintf(c.out, "FAIL  %s %s\n%s", e.Package, name, text(p.output[name]))
		}
		for path, b := range c.builds {
			fmt.Fprintf(c.out, "%s", b)
			delete(c.builds, path)
		}
	}
	word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "none"}[e.Action]
	if p.tests > 0 || e.Action == "fail" {
		took := ""
		if e.Elapsed > 0 { // a guest's events have no times
			took = fmt.Sprintf(", %.1f s", e.Elapsed)
		}
		fmt.Fprintf(c.out, "%-5s %s: %d tests%s\n", word, e.Package, p.tests, took)
	}
	clear(p.open)
	delete(c.packages, e.Package)
}

// finish prints the skips and the counts and says whether the ring holds.
func (c *count) finish(name string) bool {
	for path, p := range c.packages { // the stream ended inside a package
		c.failed++
		fmt.Fprintf(c.out, "FAIL  %s: its output ends before its result; open: %v\n%s\n", path, topLevel(p.open), text(p.output[""]))
	}
	for _, s := range c.skips {
		fmt.Fprintln(c.out, "skip ", s)
	}
	ran := c.passed + c.failed
	if ran == 0 {
		fmt.Fprintf(c.out, "FAIL  ring %s ran no test\n", name)
		c.failed++
	}
	return c.failed == 0
}

func topLevel(open map[string]bool) (names []string) {
	for n := range open {
		if !strings.Contains(n, "/") {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names
}

func keep(m map[string]*strings.Builder, key, s string) {
	b := m[key]
	if b == nil {
		b = &strings.Builder{}
		m[key] = b
	}
	if b.Len() < maxOutput {
		b.WriteString(s)
	}
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

// reason is what a skipped test logged, without the frame lines of go test.
func reason(b *strings.Builder) string {
	var words []string
	for l := range strings.Lines(text(b)) {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			words = append(words, l)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// reports are the `report:` lines that a test logged, such as its GB checked.
func reports(b *strings.Builder) (lines []string) {
	for l := range strings.Lines(text(b)) {
		if _, after, ok := strings.Cut(l, "report: "); ok {
			lines = append(lines, strings.TrimSpace(after))
		}
	}
	return lines
}
