package advise

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write prints the advice for people.
func (a Advice) Write(out io.Writer) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for i, q := range a.Answers {
		value := fmt.Sprintf("%.1f", q.Value)
		switch {
		case i == 2: // a cost has a name
			value = q.Text
		case q.Threshold == 0:
			value = fmt.Sprintf("%.0f", q.Value)
		}
		threshold, text := "", q.Text
		if q.Threshold > 0 {
			threshold = fmt.Sprintf("threshold %.0f", q.Threshold)
		}
		if i == 2 {
			text = ""
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", q.Question, value, threshold, text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	switch a.Mode {
	case "direct":
		fmt.Fprintf(&b, "write directly, behind a semaphore of %d; when it is taken: %s\n", a.Semaphore, a.Policy)
	default:
		fmt.Fprintf(&b, "use a queue of %d records (%d in each appender), batches of up to %d; when it is full: %s\n", a.QueueRecords, a.QueueRecordsEach, a.Batch, a.Policy)
	}
	for _, r := range a.Reasons {
		fmt.Fprintf(&b, "- %s\n", r)
	}
	for _, r := range a.Warnings {
		fmt.Fprintf(&b, "! %s\n", r)
	}
	// Rows of the table end without the padding of their empty cells.
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
