package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/rmatail/rmatail/fallback/durable"
)

type lsCmd struct {
	storeFlags
	Prefix string `arg:"" optional:"" help:"Only shards whose name begins with this, such as a stream's name."`
	JSON   bool   `name:"json" help:"One JSON object a shard." xor:"form"`
	Names  bool   `help:"Names only." xor:"form"`
}

// shardInfo is how ls and stat show a shard in JSON. Its keys are an interface.
type shardInfo struct {
	Shard       string `json:"shard"`
	First       uint64 `json:"first"`
	Length      uint64 `json:"length"`
	Sealed      bool   `json:"sealed"`
	Incarnation string `json:"incarnation"`
}

func newShardInfo(name string, i durable.Info) shardInfo {
	return shardInfo{Shard: name, First: i.First, Length: i.Length, Sealed: i.Sealed, Incarnation: fmt.Sprintf("%016x", i.Incarnation)}
}

// page is how many shards are asked for at once.
const page = 1000

func (c *lsCmd) Run(p *process) error {
	ctx, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	s, err := openStore(ctx, p, c.storeFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	w := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
	emit := c.emitter(p, w)
	for after := ""; ; {
		entries, err := s.List(ctx, after, page)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if after = e.Shard; !strings.HasPrefix(e.Shard, c.Prefix) {
				continue
			}
			if err := emit(newShardInfo(e.Shard, e.Info)); err != nil {
				return err
			}
		}
		if len(entries) == 0 {
			return w.Flush()
		}
	}
}

// emitter returns what prints one shard.
func (c *lsCmd) emitter(p *process, w *tabwriter.Writer) func(shardInfo) error {
	switch {
	case c.JSON:
		enc := json.NewEncoder(p.stdout)
		return func(i shardInfo) error { return enc.Encode(i) }
	case c.Names:
		return func(i shardInfo) error { _, err := fmt.Fprintln(p.stdout, i.Shard); return err }
	}
	fmt.Fprintln(w, "SHARD\tFIRST\tLENGTH\tSEALED\tINCARNATION")
	return func(i shardInfo) error {
		_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%t\t%s\n", i.Shard, i.First, i.Length, i.Sealed, i.Incarnation)
		return err
	}
}
