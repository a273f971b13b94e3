package read

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
)

// asChild makes the test binary one of the benchmark's processes.
const asChild = "BENCH_READ_CHILD"

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
	if what == "floor" {
		size, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return ServeFloor(context.Background(), size, os.Stdin, os.Stdout)
	}
	// The flags of 'rmatail serve' that the benchmark sets.
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.Bool("json", false, "")
	f.Bool("until-eof", false, "")
	f.String("policy", "", "")
	f.String("rdma", "", "")
	listen, dir, socket := f.String("listen", "", ""), f.String("dir", "", ""), f.String("socket", "", "")
	arena := f.Uint64("arena", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	s, err := server.New(server.Config{Listen: *listen, Dir: *dir, Socket: *socket, RDMAMode: server.RDMAOff,
		Durable: durable.Options{Policy: durable.Never}, Arena: chunkstore.Config{Bytes: *arena}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"listen": s.Addr().String()}); err != nil {
		return err
	}
	if err := s.Serve(ctx); !errors.Is(err, server.ErrClosed) {
		return err
	}
	return nil
}

// testConfig is a benchmark whose processes are this test binary.
func testConfig(t *testing.T) Config {
	t.Setenv(asChild, "1")
	return Config{Node: []string{os.Args[0], "serve"}, TCPFloor: []string{os.Args[0], "floor"}, ShardBytes: 1 << 20,
		For: minFor, Rounds: 2, OneSided: 1000, OneSidedFor: minFor}
}
