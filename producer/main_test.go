package producer_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asNode and asWriter make the test binary a node of a cluster, or a producer that
// kills itself: see childNode and childWriter.
const (
	asNode   = "RMATAIL_BE_A_NODE"
	asWriter = "RMATAIL_BE_A_WRITER"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(asNode) != "":
		err = childNode(os.Getenv(asNode))
	case os.Getenv(asWriter) != "":
		err = childWriter(os.Getenv(asWriter))
	default:
		goleak.VerifyTestMain(m)
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
