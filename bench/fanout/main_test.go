package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/chunkstore"
	node "github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
)

// asChild makes the test binary one of the benchmark's processes.
const asChild = "BENCH_FANOUT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		if err := beChild(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func beChild(what string, args []string) error {
	if what == "part" {
		return RunPart(context.Background(), Part(args[0]), os.Stdin, os.Stdout)
	}
	// The flags of 'rmatail serve' that the benchmark sets.
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.Bool("json", false, "")
	f.Bool("until-eof", false, "")
	f.String("policy", "", "")
	f.String("rdma", "", "")
	f.Uint64("arena", 0, "")
	f.Duration("interval", 0, "")
	listen, dir, socket := f.String("listen", "", ""), f.String("dir", "", ""), f.String("socket", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	s, err := node.New(node.Config{Listen: *listen, Dir: *dir, Socket: *socket, RDMAMode: node.RDMAOff,
		Durable: durable.Options{Policy: durable.Never}, Arena: chunkstore.Config{Bytes: 64 << 20}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"listen": s.Addr().String(), "socket": s.Socket()}); err != nil {
		return err
	}
	if err := s.Serve(ctx); !errors.Is(err, node.ErrClosed) {
		return err
	}
	return nil
}

// testConfig is a benchmark whose processes are this test binary.
func testConfig(t *testing.T) Config {
	t.Setenv(asChild, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each process takes a second to end
	return Config{Node: []string{os.Args[0], "serve"}, Part: []string{os.Args[0], "part"}, For: 250 * time.Millisecond, WarmUp: 50 * time.Millisecond,
		Grace: 10 * time.Second, Rounds: 1}
}
