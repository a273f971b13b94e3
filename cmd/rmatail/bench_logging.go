package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/bench/service"
)

type benchLoggingCmd struct {
	Lines   int           `help:"Lines of a request in the phases of many." default:"5500" placeholder:"N"`
	Clients int           `help:"Clients with one read under way each." default:"64" placeholder:"N"`
	For     time.Duration `help:"How long each phase is measured." default:"2s" placeholder:"TIME"`
	Rounds  int           `help:"Measure all phases so many times, and show each one's median round." default:"1" placeholder:"N"`
	Node    bool          `help:"Only the two phases of a node: without a logger, and with that of 'rmatail serve'."`
	Check   bool          `help:"End with exit code 1 unless all claims hold that are printed with the result. Needs an otherwise idle machine, and for the node many rounds: --node --rounds 100 --for 300ms."`
	Dir     string        `help:"Where the files of lines are made (and removed). Default: the temporary directory." placeholder:"DIR" type:"path"`
	JSON    bool          `name:"json" help:"One JSON object on standard output instead of the table."`
}

func (c *benchLoggingCmd) Help() string {
	return `Reads of 4 KiB are served over TCP while the service logs 0, 1 or many lines for each, as text or JSON, at once or through a bounded queue.
See 'go doc github.com/rmatail/rmatail/bench/service', and bench/results for what it gave.`
}

func (c *benchLoggingCmd) Run(p *process) error {
	if c.Lines < 1 || c.Clients < 1 || c.For <= 0 || c.Rounds < 1 {
		return fmt.Errorf("%w: --lines %d, --clients %d, --for %s, --rounds %d, want more than nothing", errUsage, c.Lines, c.Clients, c.For, c.Rounds)
	}
	cfg := service.Config{Lines: c.Lines, Clients: c.Clients, For: c.For, Rounds: c.Rounds, Dir: c.Dir}
	if c.Node {
		for _, phase := range service.Phases(c.Lines) {
			if phase.Node {
				cfg.Phases = append(cfg.Phases, phase)
			}
		}
	}
	cfg.Progress = func(round int, ph service.Phase) {
		p.log.Info("measured", "round", round, "lines", ph.Lines, "logging", ph.Name, "requests_per_s", int(ph.RequestsPerSecond))
	}
	res, err := service.Run(p, cfg)
	if err != nil {
		return err
	}
	res.Command = commandLine()
	return errors.Join(show(p, c.JSON, res), checkClaims(c.Check, res.Claims))
}
