package main

import (
	"bytes"
	"strings"
	"testing"
)

// stream is what go test -json prints for one package; each line is one event.
func stream(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

const (
	runA    = `{"Action":"run","Package":"p","Test":"TestA"}`
	passA   = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}`
	failA   = `{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.1}`
	passPkg = `{"Action":"pass","Package":"p","Elapsed":0.2}`
	failPkg = `{"Action":"fail","Package":"p","Elapsed":0.2}`
)

func TestCountsOfAStream(t *testing.T) {
	for _, c := range []struct {
		name                    string
		in                      string
		passed, failed, skipped int
		ok                      bool
		says                    string
	}{
		{"pass", stream(runA, passA, passPkg), 1, 0, 0, true, "ok    p"},
		{"no test", stream(`{"Action":"skip","Package":"p"}`), 0, 1, 0, false, "ran no test"},
		{"fail says what the test said", stream(runA, `{"Action":"output","Package":"p","Test":"TestA","Output":"boom\n"}`, failA, failPkg), 0, 1, 0, false, "boom"},
		{"only skips is no test", stream(runA, `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no device\n"}`,
			`{"Action":"skip","Package":"p","Test":"TestA"}`, passPkg), 0, 1, 1, false, "p TestA: a_test.go:1: no device"},
		{"panic leaves a test open", stream(runA, `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: x\n"}`, failPkg), 0, 1, 0, false, "panic: x"},
		{"leak found after the tests", stream(runA, passA, `{"Action":"output","Package":"p","Output":"goleak: x\n"}`, failPkg), 1, 1, 0, false, "goleak: x"},
		{"no build", stream(`{"ImportPath":"p [p.test]","Action":"build-output","Output":"x.go:1: syntax\n"}`, `{"ImportPath":"p [p.test]","Action":"build-fail"}`, failPkg), 0, 1, 0, false, "syntax"},
		{"stream cut", stream(runA), 0, 1, 0, false, "output ends"},
		{"report", stream(runA, `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: report: 3 GB checked\n"}`, passA, passPkg), 1, 0, 0, true, "TestA: 3 GB checked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			n := newCount(&out)
			if err := n.events(strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			ok := n.finish("x")
			if ok != c.ok || n.passed != c.passed || n.failed != c.failed || n.skipped != c.skipped {
				t.Errorf("ok %v, %d passed, %d failed, %d skipped; want %v, %d, %d, %d", ok, n.passed, n.failed, n.skipped, c.ok, c.passed, c.failed, c.skipped)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("output %q does not say %q", out.String(), c.says)
			}
		})
	}
}

func TestGuestSections(t *testing.T) {
	const good = "boot noise\n=== PACKAGE p\n\x16=== RUN   TestRxeA\n\x16--- PASS: TestRxeA (0.00s)\n\x16=== NAME  \n\x16PASS\n=== EXIT 0\n"
	for _, c := range []struct {
		name           string
		in             string
		passed, failed int
	}{
		{"pass", good, 1, 0},
		{"exit code against the word", strings.Replace(good, "EXIT 0", "EXIT 66", 1), 1, 1},
		{"guest died", strings.Replace(good, "\x16PASS\n=== EXIT 0\n", "", 1), 1, 1},
		{"no section", "boot noise\n", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			n := newCount(&out)
			if err := read(n, strings.NewReader(c.in), true); err != nil {
				t.Fatal(err)
			}
			n.finish("rxe")
			if n.passed != c.passed || n.failed != c.failed {
				t.Errorf("%d passed, %d failed; want %d, %d\n%s", n.passed, n.failed, c.passed, c.failed, out.String())
			}
		})
	}
}
