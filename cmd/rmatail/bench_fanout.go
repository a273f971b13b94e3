package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	benchfanout "github.com/rmatail/rmatail/bench/fanout"
	"github.com/rmatail/rmatail/reader"
)

type benchFanoutCmd struct {
	Programs  []benchfanout.Program  `help:"Only these: shm, rdma, tcp, naive (ours), redis-streams, redis-get, jetstream, nginx, memcached, plain (a plain TCP server), pread. Default: all, rdma where a device has an active port." name:"only" placeholder:"NAME"`
	Workloads []benchfanout.Workload `help:"Only these: beat (64 records of 4 KB/s), lines (200 B, 1 MB/s), flood (200 B, full speed), saturation (4,096 records of 4 KB/s)." name:"workload" placeholder:"NAME"`
	Consumers []int                  `help:"Only cells with so many consumers: 1, 8, 64, 512." placeholder:"N"`
	Shards    []int                  `help:"Only cells with so many shards: 1, 120." placeholder:"N"`
	Whole     bool                   `help:"Every combination, and not those alone that something is claimed of, and what stands beside them."`
	For       time.Duration          `help:"How long each cell is measured." default:"1s" placeholder:"TIME"`
	WarmUp    time.Duration          `help:"How long its producer runs before." default:"300ms" placeholder:"TIME"`
	Rounds    int                    `help:"Measure everything so many times, in turn, and show medians." default:"5" placeholder:"N"`
	Listen    string                 `help:"The node's address. Default: the loopback, with rdma an address of an RDMA device." placeholder:"HOST:PORT"`
	Device    string                 `help:"RDMA device of the consumers (default: the one that routes to the node)." placeholder:"NAME"`
	JetStream string                 `name:"jetstream" help:"The program of the JetStream peer. Default: peer_jetstream beside this command, if it is there (scripts/bench-peers builds it)." placeholder:"FILE"`
	Dir       string                 `help:"Where files are made (and removed). Default: the temporary directory." placeholder:"DIR" type:"path"`
	JSON      bool                   `name:"json" help:"One JSON object on standard output instead of the tables."`
	Check     bool                   `help:"End with exit code 1 unless all claims hold that are printed with the result. Needs an otherwise idle machine, and 5 rounds or more."`
	PNG       string                 `name:"png" help:"Write a picture of the deliveries and the server's processor time to this file." placeholder:"FILE" type:"path"`
}

func (c *benchFanoutCmd) Help() string {
	return `One producer, and consumers that follow one shard or 120: ours over each transport, and redis, JetStream, nginx and memcached
where they are on this machine (scripts/bench-peers installs them), in turn. Server, producer and consumers are processes of their own.
All of it takes about 12 minutes; --only, --workload, --consumers and --shards choose a part. See
'go doc github.com/rmatail/rmatail/bench/fanout' for every column and key, and bench/results for what it gave.`
}

func (c *benchFanoutCmd) Run(p *process) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if c.Rounds < 1 {
		return fmt.Errorf("%w: --rounds %d, want 1 or more", errUsage, c.Rounds)
	}
	cfg := benchfanout.Config{Node: []string{self, "serve"}, Part: []string{self, "bench-fanout-part"}, JetStream: c.JetStream, Programs: c.Programs,
		Workloads: c.Workloads, Consumers: c.Consumers, Shards: c.Shards, For: c.For, WarmUp: c.WarmUp, Rounds: c.Rounds, Listen: c.Listen, Device: c.Device, Dir: c.Dir}
	if c.Whole {
		cfg.Every = benchfanout.Whole
	}
	if beside := filepath.Join(filepath.Dir(self), "peer_jetstream"); c.JetStream == "" {
		if _, err := os.Stat(beside); err == nil {
			cfg.JetStream = beside
		}
	}
	devices := findDevices()
	if cfg.Programs == nil && len(devices.found) > 0 {
		cfg.Programs = benchfanout.Programs()
	}
	if cfg.Listen == "" && slices.Contains(cfg.Programs, benchfanout.RDMA) {
		if cfg.Listen, err = devices.listen(reader.RDMA, c.Device); err != nil {
			return err
		}
	}
	cfg.Progress = func(round int, r benchfanout.Row) {
		if r.Failed != "" {
			p.log.Warn("failed", "round", round, "cell", r.Name(), "why", r.Failed)
			return
		}
		p.log.Info("measured", "round", round, "cell", r.Name(), "p50_ms", short(r.P50), "p99_ms", short(r.P99), "delivered_mbps", short(r.Delivered),
			"server_ms_per_mb", short(r.ServerPerMB), "moved_per_byte", short(r.Moved), "missing", short(r.Missing))
	}
	res, err := benchfanout.Run(p, cfg)
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

func short(v float64) string { return fmt.Sprintf("%.3f", v) }

// benchFanoutPartCmd is one of the benchmark's processes.
type benchFanoutPartCmd struct {
	Part string `arg:""`
}

func (c *benchFanoutPartCmd) Run(p *process) error {
	return benchfanout.RunPart(p, benchfanout.Part(c.Part), p.stdin, p.stdout)
}
