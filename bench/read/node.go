package read

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rmatail/rmatail/bench/child"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	startTime = 60 * time.Second // of a process, or a connection: emulated hosts are slow
	// partBytes is the partial chunk at the end of each shard: what is before the
	// bytes that Delta reads, and those.
	prefixBytes = 1896
	partBytes   = prefixBytes + deltaBytes
)

// node is the node's process and the shards that it was filled with.
type node struct {
	*child.Process
	listen string
	dir    string
	shards []shard
	bytes  uint64 // of each shard
}

// shard is one of the node's.
type shard struct {
	layout.Shard
	hash layout.Hash
}

// startNode starts a node and fills it.
func startNode(ctx context.Context, c Config) (n *node, err error) {
	dir, err := os.MkdirTemp(c.Dir, "rt") // short: the path of a socket has to fit
	if err != nil {
		return nil, err
	}
	n = &node{dir: dir, bytes: uint64(c.ShardBytes) + partBytes}
	defer func() {
		if err != nil {
			n.stop()
			n = nil
		}
	}()
	// Twice what is stored: eviction begins at 80 %.
	arena := max(64<<20, 2*c.Shards*(c.ShardBytes+layout.ExtentSize))
	rdma := "off"
	for _, t := range c.Transports {
		if t == RDMA {
			rdma = "require"
		}
	}
	args := append(append([]string(nil), c.Node...), "--json", "--until-eof", "--listen", c.Listen, "--dir", filepath.Join(dir, "store"),
		"--socket", filepath.Join(dir, "s"), "--arena", strconv.Itoa(arena), "--policy", "never", "--rdma", rdma)
	if n.Process, err = child.Start(args...); err != nil {
		return n, err
	}
	line, err := n.Line(ctx, startTime)
	if err != nil {
		return n, err
	}
	var up struct {
		Listen string `json:"listen"`
	}
	if err := json.Unmarshal([]byte(line), &up); err != nil {
		return n, n.Failed(fmt.Errorf("first line %q: %w", line, err))
	}
	n.listen = up.Listen
	return n, n.fill(ctx, c)
}

// stop ends the node and removes its files.
func (n *node) stop() error {
	var err error
	if n.Process != nil {
		err = n.Process.Stop()
	}
	if e := os.RemoveAll(n.dir); err == nil {
		err = e
	}
	return err
}

// dial connects to the node.
func (n *node) dial(ctx context.Context) (*wire.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return wire.Dial(ctx, n.listen, wire.Options{Name: "bench"})
}

// fill appends the shards, through the node, which mirrors them.
func (n *node) fill(ctx context.Context, c Config) error {
	w, err := n.dial(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	store := durable.NewRemote(w)
	source := rand.NewChaCha8([32]byte{1})
	part := make([]byte, fillPart)
	for i := range c.Shards {
		s := layout.Shard{Stream: "bench", Number: uint32(i)}
		for at := uint64(0); at < n.bytes; {
			p := part[:min(uint64(len(part)), n.bytes-at)]
			_, _ = source.Read(p) // never fails
			if at, err = n.append(ctx, store, s, at, p); err != nil {
				return fmt.Errorf("fill %s: %w", s, err)
			}
		}
		info, err := store.Stat(ctx, s.String())
		if err != nil {
			return fmt.Errorf("fill %s: %w", s, err)
		}
		n.shards = append(n.shards, shard{s, s.Hash(info.Incarnation)})
	}
	return nil
}

func (n *node) append(ctx context.Context, store *durable.Remote, s layout.Shard, at uint64, p []byte) (end uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	_, end, err = store.Append(ctx, s.String(), at, p)
	return end, err
}

// published waits until the node's memory has all shards, and finds what there is
// to read.
func (n *node) published(ctx context.Context, m memory) (*places, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		p, err := findPlaces(m, n)
		if err == nil {
			return p, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("the node's memory lacks what was appended: %w", err)
		}
	}
}
