package rdma

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(rxeHelper) != "" {
		os.Exit(runRxeHelper())
	}
	goleak.VerifyTestMain(m)
}
