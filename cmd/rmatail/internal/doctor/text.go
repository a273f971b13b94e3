package doctor

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the report for people: a line for each finding, and below it
// what mends it.
func (r Report) WriteText(w io.Writer, details Details) error {
	var b strings.Builder
	for _, f := range r.Findings {
		name := f.Check
		if f.On != "" {
			name += " " + f.On
		}
		fmt.Fprintf(&b, "%-7s %s: %s\n", f.Verdict, name, f.Found)
		if details == All || f.Verdict >= Warn {
			for _, d := range f.Details {
				fmt.Fprintf(&b, "          %s\n", d)
			}
		}
		if f.Verdict == OK && details != All {
			continue
		}
		for _, fix := range f.Fix {
			fmt.Fprintf(&b, "        > %s\n", fix)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d unknown, %d warn, %d fail: ", r.Count(OK), r.Count(Unknown), r.Count(Warn), r.Count(Fail))
	switch {
	case r.RDMA && r.Verdict == Fail:
		b.WriteString("RDMA works in part; see what failed\n")
	case r.RDMA:
		b.WriteString("RDMA can be used\n")
	default:
		b.WriteString("RDMA cannot be used here; rmatail reads over shared memory on the same host, and over TCP\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Details says how much of a report is written.
type Details uint8

const (
	// Needed leaves out the details and fixes of what is well.
	Needed Details = iota
	// All leaves out nothing.
	All
)
