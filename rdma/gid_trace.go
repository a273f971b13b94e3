package rdma

import (
	"strings"
)

// Verdict is what [ChooseGID] decided about one entry.
type Verdict struct {
	Entry  GIDEntry
	Chosen bool
	Reason string // why it was chosen, or why another one was
}

// String is one line without a line end.
func (v Verdict) String() string {
	mark := "- "
	if v.Chosen {
		mark = "* "
	}
	return mark + v.Entry.String() + ": " + v.Reason
}

// Trace is the verdict on every entry of a table, by port and index. Table rows
// that are empty are not in it.
type Trace []Verdict

// String has one line per entry, the chosen one marked with an asterisk.
func (t Trace) String() string {
	var b strings.Builder
	for _, v := range t {
		b.WriteString(v.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// maxTraceInError bounds an error message: a table may have a thousand entries.
const maxTraceInError = 8

func (t Trace) oneLine() string {
	var parts []string
	for i, v := range t {
		if i == maxTraceInError {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, v.Entry.String()+": "+v.Reason)
	}
	return strings.Join(parts, "; ")
}
