package wire

import (
	"strings"
	"testing"
)

// Each operation has a name, and a bound on its requests.
func TestOps(t *testing.T) {
	for op := OpHello; op <= OpReport; op++ {
		if strings.HasPrefix(op.String(), "Op(") {
			t.Errorf("operation %d has no name", op)
		}
		if most := op.maxRequest(); most == maxUnknown {
			t.Errorf("%v: requests of %d B, as of an unknown operation", op, most)
		}
		if op.Repeatable() != (op != OpAppend) {
			t.Errorf("%v: repeatable %v", op, op.Repeatable())
		}
	}
}
