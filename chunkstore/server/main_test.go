package server

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/chunkstore"
)

// asNode makes the test binary a node over the directory that it names, at the
// address in asNodeAddr, until it is killed.
const (
	asNode     = "BE_A_NODE_OVER"
	asNodeAddr = "BE_A_NODE_AT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(asNode); dir != "" {
		fmt.Fprintln(os.Stderr, beANode(dir))
		os.Exit(1)
	}
	if addr := os.Getenv(asSiege); addr != "" {
		if err := beASiege(addr, os.Getenv(asSiegeToken)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func beANode(dir string) error {
	s, err := New(Config{
		Listen: os.Getenv(asNodeAddr), Dir: dir, Arena: chunkstore.Config{Bytes: 16 << 20}, Socket: SocketNone, RDMAMode: RDMAOff,
	})
	if err != nil {
		return err
	}
	fmt.Println(s.Addr())
	return s.Serve(context.Background())
}
