package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rmatail/rmatail/bench"
	benchsink "github.com/rmatail/rmatail/bench/sink"
)

// benchCmd runs the experiments.
type benchCmd struct {
	Read    benchReadCmd    `cmd:"" help:"Reads over shm, rdma and tcp next to the floor of each on this machine."`
	Fanout  benchFanoutCmd  `cmd:"" help:"One producer and up to 512 consumers, over shm, rdma and tcp, next to redis, JetStream, nginx and memcached."`
	Sink    benchSinkCmd    `cmd:"" help:"50,000 records into one slow sink: a goroutine each, queues, batches, our appender."`
	Scale   benchScaleCmd   `cmd:"" help:"The published experiments with thousands of consumers, in virtual time."`
	Logging benchLoggingCmd `cmd:"" help:"What lines logged per request cost a service that answers reads."`
	Scrape  benchScrapeCmd  `cmd:"" help:"What it costs a node's reads that its metrics are scraped and its page is open."`
}

type benchSinkCmd struct {
	Records int      `help:"Records of each row." default:"50000" placeholder:"N"`
	Real    string   `help:"Measure the real sink instead of the simulated one: durable stores made in this directory, each write flushed to the disk." placeholder:"DIR" type:"path"`
	Wait    []string `help:"How the simulated sink waits: sleep (time.Sleep, as published; about 1.2 ms instead of 200 us), exact (parked, until the kernel's clock says so) or held (the same in a system call, which holds its thread)." default:"sleep,exact,held" placeholder:"NAME"`
	Rounds  int      `help:"Measure all rows so many times, and show each row's median round." default:"1" placeholder:"N"`
	JSON    bool     `name:"json" help:"One JSON object on standard output instead of the table."`
	Check   bool     `help:"End with exit code 1 unless all claims hold that are printed with the result. Needs an otherwise idle machine."`
	PNG     string   `name:"png" help:"Write a picture of throughput and p99 to this file." placeholder:"FILE" type:"path"`
}

func (c *benchSinkCmd) Help() string {
	return `The sink has 4 connections; a write takes 200 us, one in a hundred 5 ms. A round takes about 2 minutes.
Modes: direct (a goroutine a record), semaphore (4 of them), queue (full: dropped), blocking (full: the caller waits), appender (our own).
records/s is written records by the time until the last one is written; e2e is from before a record is offered until it is written.
See 'go doc github.com/rmatail/rmatail/bench/sink', and bench/results for what it gave.`
}

func (c *benchSinkCmd) Run(p *process) error {
	cfg := benchsink.Config{Records: c.Records, Rounds: c.Rounds, Dir: c.Real}
	if c.Real != "" {
		cfg.Waits = []benchsink.Wait{benchsink.Store}
	} else if err := c.waits(&cfg); err != nil {
		return err
	}
	if c.Records < 1 || c.Rounds < 1 {
		return fmt.Errorf("%w: --records %d, --rounds %d, want 1 or more", errUsage, c.Records, c.Rounds)
	}
	cfg.Progress = func(round int, r benchsink.Row) {
		p.log.Info("measured", "round", round, "wait", r.Wait, "row", r.Name(), "records_per_s", int(r.RecordsPerSecond), "e2e_p99_ms", int(r.E2E.P99/1e3), "dropped", r.Dropped)
	}
	res, err := benchsink.Run(p, cfg)
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

// checkClaims returns what claims do not hold, if that was asked for.
func checkClaims(asked bool, claims []bench.Claim) error {
	if !asked {
		return nil
	}
	return bench.Check(claims)
}

// show prints a result.
func show(p *process, asJSON bool, res interface{ Write(io.Writer) error }) error {
	if !asJSON {
		return res.Write(p.stdout)
	}
	e := json.NewEncoder(p.stdout)
	e.SetIndent("", " ")
	return e.Encode(res)
}

// commandLine is this process's, to go with what it measured.
func commandLine() string { return strings.Join(append([]string{"rmatail"}, os.Args[1:]...), " ") }

func (c *benchSinkCmd) waits(cfg *benchsink.Config) error {
	for _, name := range c.Wait {
		var w benchsink.Wait
		if err := w.UnmarshalText([]byte(name)); err != nil || w == benchsink.Store {
			return fmt.Errorf("%w: --wait %s, want sleep, exact or held; --real DIR has no wait", errUsage, name)
		}
		cfg.Waits = append(cfg.Waits, w)
	}
	return nil
}
