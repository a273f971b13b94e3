package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	benchread "github.com/rmatail/rmatail/bench/read"
	"github.com/rmatail/rmatail/reader"
)

type benchReadCmd struct {
	Transports  []benchread.Transport `help:"shm, rdma and tcp, in the order to measure. Default: shm and tcp, and rdma where a device has an active port." name:"transport" placeholder:"NAME"`
	Reads       []benchread.Kind      `help:"What to read: word (8 B), line (64 B), raw (4 KiB), chunk (4 KiB, verified), delta (200 B, verified), backlog (verified chunks through package reader). Default: all." placeholder:"NAME"`
	Batches     []int                 `help:"Reads of a batch, for rates." default:"1,16,64" placeholder:"N"`
	InFlight    int                   `help:"Batches on their way for each reader, for rates." default:"1" placeholder:"N"`
	Readers     int                   `help:"Readers at once, each with its own connection." default:"1" placeholder:"N"`
	Shards      int                   `help:"Shards that are read in turn." default:"1" placeholder:"N"`
	ShardBytes  size                  `help:"Bytes of each shard, a multiple of 1 MiB." default:"32MiB" placeholder:"SIZE"`
	For         time.Duration         `help:"How long each cell is measured, and its floor." default:"300ms" placeholder:"TIME"`
	Rounds      int                   `help:"Measure everything so many times, in turn, and show medians." default:"5" placeholder:"N"`
	OneSided    int                   `help:"Reads over which the node's processor time is measured; -1: none." default:"300000" placeholder:"N"`
	OneSidedFor time.Duration         `help:"And at least so long, reading and idle in turn." default:"2s" placeholder:"TIME"`
	Listen      string                `help:"The node's address. Default: the loopback, with rdma an address of an RDMA device." placeholder:"HOST:PORT"`
	Device      string                `help:"RDMA device of the readers (default: the one that routes to the node)." placeholder:"NAME"`
	VerbsFloor  string                `help:"The program of bench/verbs_floor, the floor of rdma; none: no floor. Default: verbs_floor beside this command, if it is there (scripts/bench-read builds it)." placeholder:"FILE"`
	Redis       string                `help:"The redis-server that raw reads over tcp are compared with; none: with none. Default: redis-server, if it is there." placeholder:"FILE"`
	Dir         string                `help:"Where the node's durable files are made (and removed). Default: the temporary directory." placeholder:"DIR" type:"path"`
	JSON        bool                  `name:"json" help:"One JSON object on standard output instead of the tables."`
	Check       bool                  `help:"End with exit code 1 unless all claims hold that are printed with the result. Needs an otherwise idle machine, and 5 rounds or more."`
	PNG         string                `name:"png" help:"Write a picture of the rates, latencies and ratios to this file." placeholder:"FILE" type:"path"`
}

func (c *benchReadCmd) Help() string {
	return `A node in a process of its own is read over each transport, one read at a time and in batches, next to the floor of the
transport on this machine: a copy out of a mapping (with CRC32C where reads are verified), the same READs in plain C, a plain Go server.
A round of everything takes about 30 s for each transport. See 'go doc github.com/rmatail/rmatail/bench/read' for every column and key,
scripts/bench-read --rxe for the run on soft-RoCE, and bench/results for what it gave.`
}

func (c *benchReadCmd) Run(p *process) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := benchread.Config{
		Node: []string{self, "serve"}, TCPFloor: []string{self, "bench-read-floor"}, VerbsFloor: c.floor(p, self), Redis: c.redis(p),
		Transports: c.Transports, Kinds: c.Reads, Batches: c.Batches, InFlight: c.InFlight, Readers: c.Readers,
		Shards: c.Shards, ShardBytes: int(c.ShardBytes), For: c.For, Rounds: c.Rounds, OneSided: c.OneSided, OneSidedFor: c.OneSidedFor,
		Listen: c.Listen, Device: c.Device, Dir: c.Dir,
	}
	if c.Rounds < 1 || c.InFlight < 1 || c.Readers < 1 || c.Shards < 1 {
		return fmt.Errorf("%w: --rounds %d, --in-flight %d, --readers %d, --shards %d, want 1 or more", errUsage, c.Rounds, c.InFlight, c.Readers, c.Shards)
	}
	devices := findDevices()
	if cfg.Transports == nil {
		cfg.Transports = []benchread.Transport{benchread.SHM, benchread.TCP}
		if len(devices.found) > 0 {
			cfg.Transports = benchread.Transports()
		}
	}
	if cfg.Listen == "" && slices.Contains(cfg.Transports, benchread.RDMA) {
		if cfg.Listen, err = devices.listen(reader.RDMA, c.Device); err != nil {
			return err
		}
	}
	cfg.Progress = func(round int, r benchread.Row) {
		a := []any{"round", round, "transport", r.Transport, "read", r.Kind, "mode", r.Mode, "batch", r.Batch,
			"t_typical_usec", r.Ours.TTypical, "reads_per_s", int(r.Ours.MsgRate * 1e6)}
		if r.Ratio != nil {
			a = append(a, "of_floor", fmt.Sprintf("%.3f", r.Ratio.Median))
		}
		p.log.Info("measured", a...)
	}
	res, err := benchread.Run(p, cfg)
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

// floor returns the program that is the floor of rdma.
func (c *benchReadCmd) floor(p *process, self string) string {
	switch c.VerbsFloor {
	case "none":
		return ""
	case "":
		beside := filepath.Join(filepath.Dir(self), "verbs_floor")
		if _, err := os.Stat(beside); err != nil {
			p.log.Info("rdma is measured without its floor: scripts/bench-read builds that, or name it with --verbs-floor")
			return ""
		}
		return beside
	}
	return c.VerbsFloor
}

// redis returns the program of the peer.
func (c *benchReadCmd) redis(p *process) string {
	switch c.Redis {
	case "none":
		return ""
	case "":
		found, err := exec.LookPath("redis-server")
		if err != nil {
			p.log.Info("tcp is measured without redis beside it: install redis-server, or name it with --redis")
			return ""
		}
		return found
	}
	return c.Redis
}

// benchReadFloorCmd is the floor of tcp.
type benchReadFloorCmd struct {
	Bytes int `arg:""`
}

func (c *benchReadFloorCmd) Run(p *process) error {
	return benchread.ServeFloor(p, c.Bytes, p.stdin, p.stdout)
}
