// Command ring counts one ring of tests. It reads `go test -json` events on
// standard input, prints each package as it ends, everything a failed test said,
// every skip with its reason and every `report:` line and attribute of a test
// that passed, and appends one line to a summary file:
//
//	NAME PASSED FAILED SKIPPED SECONDS
//
// It exits 1 when a test failed, a package did not build or the ring ran no
// test. With -guest the input is what scripts/test makes of test binaries run
// in a guest: the -test.v=test2json output of each, after a line
// `=== PACKAGE import/path` and before a line `=== EXIT code`.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	name := flag.String("name", "", "name of the ring")
	summary := flag.String("summary", "", "file to append the counts to")
	guest := flag.Bool("guest", false, "read marked test binary output instead of go test -json")
	flag.Parse()
	start := time.Now()
	c := newCount(os.Stdout)
	if err := read(c, os.Stdin, *guest); err != nil {
		fmt.Fprintln(os.Stderr, "ring:", err)
		os.Exit(1)
	}
	ok := c.finish(*name)
	if *summary != "" {
		line := fmt.Sprintf("%s %d %d %d %.0f\n", *name, c.passed, c.failed, c.skipped, time.Since(start).Seconds())
		if err := appendLine(*summary, line); err != nil {
			fmt.Fprintln(os.Stderr, "ring:", err)
			os.Exit(1)
		}
	}
	if !ok {
		os.Exit(1)
	}
}

func read(c *count, r io.Reader, guest bool) error {
	if !guest {
		return c.events(r)
	}
	return sections(r, func(s section) error {
		events, err := s.events()
		if err != nil {
			return err
		}
		return c.events(bytes.NewReader(events))
	})
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
