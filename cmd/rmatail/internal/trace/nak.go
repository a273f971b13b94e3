package trace

import "github.com/rmatail/rmatail/rdma/roce"

// nakNames are the kinds of refusals, as keys of a report.
var nakNames = [...]string{
	"psn_sequence_error", "invalid_request", "remote_access_error", "remote_operational_error", "invalid_rd_request",
	"other", "rnr",
}

const (
	nakSequence = 0
	nakOther    = 5
	nakRNR      = 6
)

// nakOf returns the kind of a refusal, -1 if it is none, and whether the
// connection ends with it. A sequence error asks for what is missing, RNR for
// patience.
func nakOf(s roce.Syndrome) (kind int, breaks bool) {
	switch {
	case s.IsACK():
		return -1, false
	case s.IsNAK():
		kind = min(int(s&0x1f), nakOther)
		return kind, kind != nakSequence
	case s>>5&3 == 1:
		return nakRNR, false
	}
	return nakOther, false
}
