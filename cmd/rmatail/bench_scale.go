package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/bench/scale"
)

type benchScaleCmd struct {
	Only     []string      `help:"Only the experiments whose names contain one of these." placeholder:"TEXT"`
	Sample   int           `help:"Simulate at most so many consumers of each experiment (half as many of the large ones); each stands for the same number." default:"1000" placeholder:"N"`
	Link     float64       `help:"Gb/s of a node." default:"25" placeholder:"GBPS"`
	Consumer float64       `help:"Gb/s of a consumer." default:"10" placeholder:"GBPS"`
	Reads    float64       `help:"One-sided reads a second that a node's NIC serves." default:"5000000" placeholder:"N"`
	RTT      time.Duration `name:"rtt" help:"Round trip of an unloaded network." default:"100us" placeholder:"TIME"`
	Flush    time.Duration `help:"How long a writer's flush to the durable store takes." default:"5ms" placeholder:"TIME"`
	Store    time.Duration `help:"How long a question to the durable store takes." default:"10ms" placeholder:"TIME"`
	For      time.Duration `help:"Count for so much virtual time." default:"4s" placeholder:"TIME"`
	JSON     bool          `name:"json" help:"One JSON object on standard output instead of the tables."`
	PNG      string        `name:"png" help:"Write a picture of what was moved, asked and delivered to this file." placeholder:"FILE" type:"path"`
	Check    bool          `help:"End with exit code 1 unless all claims hold that are printed with the result."`
}

func (c *benchScaleCmd) Help() string {
	return `The published experiments of Fast ACS in virtual time: what is decided is decided by the code of the reader, the placement and the
writer; nodes and network are a model whose parameters and formulas are printed. Needs no idle machine; takes one core for a minute or two.
See 'go doc github.com/rmatail/rmatail/bench/scale', and bench/results for what it gave.`
}

func (c *benchScaleCmd) Run(p *process) error {
	if c.Sample < 2 || c.Link <= 0 || c.Consumer <= 0 || c.Reads <= 0 || c.RTT <= 0 || c.Flush <= 0 || c.Store <= 0 || c.For < time.Second {
		return fmt.Errorf("%w: --sample %d (at least 2), --for %s (at least 1s), and link, reads, rtt, flush and store must be positive", errUsage, c.Sample, c.For)
	}
	cfg := scale.Config{Network: scale.Network{LinkGbps: c.Link, ConsumerLinkGbps: c.Consumer, ReadsPerSecond: c.Reads, RTT: c.RTT, Flush: c.Flush, Store: c.Store}}
	for _, e := range scale.Experiments(c.Sample) {
		if e.For = c.For; e.Named(c.Only) {
			cfg.Experiments = append(cfg.Experiments, e)
		}
	}
	if len(cfg.Experiments) == 0 {
		return fmt.Errorf("%w: --only %q names no experiment", errUsage, c.Only)
	}
	cfg.Progress = func(r scale.Row) {
		p.log.Info("simulated", "experiment", r.Name, "took", r.Took.Round(time.Millisecond), "events", r.Events)
	}
	res, err := scale.Run(p, cfg)
	if err != nil {
		return err
	}
	res.Command = commandLine()
	if c.PNG != "" {
		if err := writeFile(c.PNG, res.WritePNG); err != nil {
			return err
		}
	}
	return errors.Join(show(p, c.JSON, res), checkClaims(c.Check, res.Claims))
}
