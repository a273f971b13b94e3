package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleEnv names what a process of this binary is to be instead of a test, and
// specEnv holds its JSON.
const (
	roleEnv = "RMATAIL_CHAOS_ROLE"
	specEnv = "RMATAIL_CHAOS_SPEC"
)

func TestMain(m *testing.M) {
	roles := map[string]func() error{"node": role(beNode), "producer": role(beProducer), "crowd": role(beCrowd)}
	if name := os.Getenv(roleEnv); name != "" {
		if err := roles[name](); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// role makes a process out of a function of its spec.
func role[S any](be func(S) error) func() error {
	return func() error {
		var spec S
		if err := json.Unmarshal([]byte(os.Getenv(specEnv)), &spec); err != nil {
			return err
		}
		return be(spec)
	}
}
