package bench

import (
	"errors"
	"fmt"
	"io"
)

// ErrClaims is returned when results do not hold what was claimed of them.
var ErrClaims = errors.New("claims do not hold")

// Claim is something that results are held to. Its keys are an interface.
type Claim struct {
	Text     string `json:"claim"`
	Measured string `json:"measured"`
	Holds    bool   `json:"holds"`
}

// WriteClaims prints claims, one a line.
func WriteClaims(out io.Writer, claims []Claim) error {
	for _, c := range claims {
		word := "holds"
		if !c.Holds {
			word = "DOES NOT HOLD"
		}
		if _, err := fmt.Fprintf(out, "%s: %s: %s\n", word, c.Text, c.Measured); err != nil {
			return err
		}
	}
	return nil
}

// Check returns ErrClaims unless there are claims, and all of them hold.
func Check(claims []Claim) error {
	failed := 0
	for _, c := range claims {
		if !c.Holds {
			failed++
		}
	}
	switch {
	case len(claims) == 0:
		return fmt.Errorf("%w: nothing was measured that anything is claimed of", ErrClaims)
	case failed > 0:
		return fmt.Errorf("%w: %d of %d; other work beside it disturbs, more rounds help", ErrClaims, failed, len(claims))
	}
	return nil
}
