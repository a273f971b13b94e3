package advise

import (
	"fmt"
	"math"
	"strconv"
)

// Loss is what a lost record costs. As a number its unit is a second for which a
// producer waits: 0.001 means that losing a thousand records is as bad as one
// second of waiting. The zero value is none.
type Loss struct{ cost float64 }

// The costs with names.
var names = map[string]float64{"none": 0, "annoying": 1, "fatal": math.MaxFloat64}

// UnmarshalText reads none, annoying, fatal, or a number.
func (l *Loss) UnmarshalText(text []byte) error {
	if cost, ok := names[string(text)]; ok {
		l.cost = cost
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return fmt.Errorf("cost %q, want none, annoying, fatal, or a number of seconds of waiting that a record is worth", text)
	}
	l.cost = v
	return nil
}

func (l Loss) String() string {
	for name, cost := range names {
		if cost == l.cost {
			return name
		}
	}
	return strconv.FormatFloat(l.cost, 'g', -1, 64) + " s of waiting"
}

// words are what it costs, in a sentence.
func (l Loss) words() string {
	switch s := l.String(); s {
	case "none":
		return "nothing"
	case "annoying":
		return "trouble, but no harm"
	default:
		return s
	}
}

func (l Loss) fatal() bool { return l.cost == math.MaxFloat64 }

// policy drops when a second's arrivals are worth less than the second for
// which their producers would wait.
func (l Loss) policy(peak float64) string {
	if l.cost*peak < 1 {
		return "drop-newest"
	}
	return "block"
}
