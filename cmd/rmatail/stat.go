package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/cmd/rmatail/internal/states"
	"github.com/rmatail/rmatail/fallback/wire"
)

type statCmd struct {
	storeFlags
	Shard  *shard   `arg:"" optional:"" help:"The shard, such as logs/0000. Without it the node is shown, or the cluster."`
	Shards int      `help:"With --cluster: look at so many shards at most." default:"1000" placeholder:"N"`
	Reader []string `help:"Take in what a consumer tells, by its metrics: an address, or a URL. Can be repeated." placeholder:"HOST:PORT"`
	JSON   bool     `name:"json" help:"One JSON object."`
}

func (c *statCmd) Help() string {
	return `With --cluster the nodes are shown with how they are, and the shards with how far each metadata replica of their length page is behind
the durable store, and who writes. A node's hit rate is the part of the last 256 KiB of each shard that it holds, of what placement gives it;
missing is what the writers of the store's node have put and it still lacks.

Shards in trouble come first. Each has a state: fine, producer_stopped, producer_slow, cache_missing, durable_throttled, transport_degraded, consumer_slow, or unknown, and
why. Only consumers know of the transports that they read over, and of themselves: --reader asks them (rmatail tail --http, or any
process that gives its metrics).`
}

func (c *statCmd) Run(p *process) error {
	if c.Cluster != "" {
		return c.cluster(p)
	}
	ctx, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	if c.Shard == nil {
		return c.node(ctx, p)
	}
	s, err := openStore(ctx, p, c.storeFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	i, err := s.Stat(ctx, c.Shard.String())
	if err != nil {
		return err
	}
	consumers, err := c.consumers(ctx)
	if err != nil {
		return err
	}
	info := shardState{newShardInfo(c.Shard.String(), i), c.state(ctx, p, consumers)}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(info)
	}
	w := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "shard\t%s\nfirst\t%d\nlength\t%d\nkept\t%d\nsealed\t%t\nincarnation\t%s\nstate\t%v\nwhy\t%s\n",
		info.Shard, info.First, info.Length, info.Length-info.First, info.Sealed, info.Incarnation, info.State, info.Why)
	return w.Flush()
}

// shardState is a shard with its state.
type shardState struct {
	shardInfo
	cause.Verdict
}

// state asks the node, if there is one, and the consumers for the state of the shard.
func (c *statCmd) state(ctx context.Context, p *process, consumers []states.Consumer) cause.Verdict {
	var text []byte
	if addr := c.address(); addr != "" {
		client, err := dial(ctx, p, addr)
		if err == nil {
			defer client.Close()
			text, err = client.Call(ctx, wire.OpNodeStat, nil, nil)
		}
		if err != nil {
			return cause.Verdict{State: cause.CacheMissing, Why: err.Error()}
		}
	}
	return states.OfNode(text, c.Shard.String(), consumers)
}

// consumers asks those that were named.
func (c *statCmd) consumers(ctx context.Context) (all []states.Consumer, err error) {
	for _, addr := range c.Reader {
		one, err := states.Ask(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("consumer: %w", err)
		}
		all = append(all, one)
	}
	return all, nil
}

// node shows what the node says about itself.
func (c *statCmd) node(ctx context.Context, p *process) error {
	if c.Server == "" && c.Dir != "" {
		return fmt.Errorf("%w: a directory has no node to show; name a shard, or the node with --server", errUsage)
	}
	if err := p.know(""); err != nil {
		return err
	}
	client, err := dial(ctx, p, c.address())
	if err != nil {
		return err
	}
	defer client.Close()
	text, err := client.Call(ctx, wire.OpNodeStat, nil, nil)
	if err != nil {
		return err
	}
	var all map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // an epoch has more digits than a float64
	if err := numbers.Decode(&all); err != nil {
		return fmt.Errorf("node statistics: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(json.RawMessage(text))
	}
	rows := map[string]string{}
	flatten(rows, "", all)
	names := make([]string, 0, len(rows))
	for n := range rows {
		names = append(names, n)
	}
	sort.Strings(names)
	w := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
	for _, n := range names {
		fmt.Fprintf(w, "%s\t%s\n", n, rows[n])
	}
	return w.Flush()
}

// longestCell is the longest text that is shown to people.
const longestCell = 300

// flatten turns nested objects into rows with dotted names.
func flatten(rows map[string]string, prefix string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			flatten(rows, prefix+"."+k, e)
		}
	case []any:
		var parts []string
		for i, e := range v {
			if _, nested := e.(map[string]any); nested {
				flatten(rows, fmt.Sprintf("%s.%d", prefix, i), e)
				continue
			}
			parts = append(parts, fmt.Sprint(e))
		}
		if parts != nil || len(v) == 0 {
			rows[strings.TrimPrefix(prefix, ".")] = strings.Join(parts, " ")
		}
	case json.Number:
		rows[strings.TrimPrefix(prefix, ".")] = shortNumber(v)
	case string:
		if len(v) > longestCell { // a map or a histogram, for programs
			v = fmt.Sprintf("(%d characters: see --json)", len(v))
		}
		rows[strings.TrimPrefix(prefix, ".")] = v
	default:
		rows[strings.TrimPrefix(prefix, ".")] = fmt.Sprint(v)
	}
}

// shortNumber prints an integer as it is, and others with three decimals.
func shortNumber(n json.Number) string {
	if f, err := n.Float64(); err == nil && strings.ContainsAny(n.String(), ".eE") {
		return strings.TrimSuffix(fmt.Sprintf("%.3f", f), ".000")
	}
	return n.String()
}
