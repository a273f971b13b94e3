package doctor

import (
	"fmt"
	"slices"
)

// Verdict is what a finding means. A greater one is worse.
type Verdict uint8

const (
	OK Verdict = iota
	Unknown
	Warn
	Fail
)

var verdicts = [...]string{"ok", "unknown", "warn", "fail"}

// String is the verdict's word, as it is in JSON.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// MarshalText returns the verdict's word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the verdict's word.
func (v *Verdict) UnmarshalText(text []byte) error {
	i := slices.Index(verdicts[:], string(text))
	if i < 0 {
		return fmt.Errorf("no verdict is called %q", text)
	}
	*v = Verdict(i)
	return nil
}

// Finding is the outcome of a check on one thing. Its JSON keys, and the words in
// Check, are an interface.
type Finding struct {
	Check   string   `json:"check"`        // the kind of check, one word
	On      string   `json:"on,omitempty"` // what it is about: "rxe0 port 1"; empty: the host
	Verdict Verdict  `json:"verdict"`
	Found   string   `json:"found"`             // the fact, and what follows from it
	Details []string `json:"details,omitempty"` // one a line
	Fix     []string `json:"fix,omitempty"`     // commands, in this order
}

// Report is all findings, in the order in which they build on each other.
type Report struct {
	Verdict  Verdict   `json:"verdict"` // the worst one, but for unknown
	RDMA     bool      `json:"rdma"`    // a device of this host can be used
	Findings []Finding `json:"findings"`
	Peer     *Peer     `json:"peer,omitempty"` // with a peer
}

// NewReport sums findings up.
func NewReport(findings []Finding) Report {
	r := Report{Findings: findings}
	for _, f := range findings {
		if f.Verdict != Unknown {
			r.Verdict = max(r.Verdict, f.Verdict)
		}
	}
	return r
}

// Count is the number of findings with a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}
