package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/advise"
	"github.com/rmatail/rmatail/fallback/wire"
)

type adviseCmd struct {
	Server      string        `help:"The node whose appenders are asked. Default 127.0.0.1:7440." placeholder:"HOST:PORT" xor:"from"`
	FromJSON    string        `name:"from-json" help:"Read the statistics from this file instead (- is standard input): what 'rmatail stat --json' prints, or producer.Stats as JSON." placeholder:"FILE" xor:"from"`
	For         time.Duration `help:"Watch the node for so long, and take arrivals from that alone. Otherwise all counts since its appenders were opened." placeholder:"TIME"`
	LossCost    advise.Loss   `help:"What a lost record costs: none, annoying, fatal, or a number of seconds of waiting that it is worth." default:"annoying" placeholder:"COST"`
	Latency     time.Duration `help:"How long a record may wait in a queue." default:"100ms" placeholder:"TIME"`
	Connections int           `help:"How many writes the sink takes at once. Default: one for each shard that is open." placeholder:"N"`
	JSON        bool          `name:"json" help:"One JSON object on standard output."`
}

func (c *adviseCmd) Help() string {
	return `Answers whether producers need a queue, how long, with which batches, and what happens when it is full, from what their appenders
have measured: bursts of arrivals (peak by mean, threshold 3), pauses of the sink (p99 by p50, threshold 5), the cost of a loss, and the
capacity needed (peak by the time that the queue takes to drain). 'rmatail bench sink' shows the experiment behind it.`
}

// sampleEvery is the time over which the peak of arrivals is taken.
const sampleEvery = 100 * time.Millisecond

func (c *adviseCmd) Run(p *process) error {
	if c.For < 0 || c.For > 0 && c.For < 2*sampleEvery || c.Latency <= 0 || c.Connections < 0 || c.For > 0 && c.FromJSON != "" {
		return fmt.Errorf("%w: --for %s (at least %s, with a node), --latency %s, --connections %d", errUsage, c.For, 2*sampleEvery, c.Latency, c.Connections)
	}
	f, err := c.facts(p)
	if err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	a := advise.Decide(f, advise.Wishes{Loss: c.LossCost, Latency: c.Latency, Connections: c.Connections})
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(a)
	}
	return a.Write(p.stdout)
}

func (c *adviseCmd) facts(p *process) (advise.Facts, error) {
	if c.FromJSON == "" {
		return c.ask(p)
	}
	in := p.stdin
	if c.FromJSON != "-" {
		f, err := os.Open(c.FromJSON)
		if err != nil {
			return advise.Facts{}, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 16<<20))
	if err != nil {
		return advise.Facts{}, err
	}
	return advise.Parse(text)
}

// ask reads a node's statistics, and watches them for c.For.
func (c *adviseCmd) ask(p *process) (f advise.Facts, err error) {
	ctx, cancel := context.WithTimeout(p, c.For+openTimeout)
	defer cancel()
	if err := p.know(""); err != nil {
		return f, err
	}
	client, err := dial(ctx, p, storeFlags{Server: c.Server}.address())
	if err != nil {
		return f, err
	}
	defer client.Close()
	var arrivals []uint64
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		text, err := client.Call(ctx, wire.OpNodeStat, nil, nil)
		if err != nil {
			return f, err
		}
		if f, err = advise.Parse(text); err != nil {
			return f, err
		}
		arrivals = append(arrivals, f.Arrivals)
		if len(arrivals) > int(c.For/sampleEvery) {
			return f.Window(arrivals, sampleEvery), nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return f, ctx.Err()
		}
	}
}
