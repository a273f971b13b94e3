package bench

import (
	"errors"
	"strings"
	"testing"
)

func TestClaims(t *testing.T) {
	good, bad := Claim{"the earth is round", "by eye", true}, Claim{"it is flat", "by foot", false}
	var out strings.Builder
	if err := WriteClaims(&out, []Claim{good, bad}); err != nil || out.String() != "holds: the earth is round: by eye\nDOES NOT HOLD: it is flat: by foot\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := Check([]Claim{good}); err != nil {
		t.Error(err)
	}
	for _, claims := range [][]Claim{nil, {good, bad}} {
		if err := Check(claims); !errors.Is(err, ErrClaims) {
			t.Errorf("%+v: %v", claims, err)
		}
	}
}
