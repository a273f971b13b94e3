package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/bench/service"
)

type benchScrapeCmd struct {
	Clients int           `help:"Clients with one read under way each." default:"16" placeholder:"N"`
	For     time.Duration `help:"How long each phase is measured: whole seconds, as looks are a second apart." default:"2s" placeholder:"TIME"`
	Rounds  int           `help:"Measure both phases so many times, in turn." default:"20" placeholder:"N"`
	Check   bool          `help:"End with exit code 1 unless the claim holds that is printed with the result. Needs an otherwise idle machine."`
	JSON    bool          `name:"json" help:"One JSON object on standard output instead of the table."`
}

func (c *benchScrapeCmd) Help() string {
	return `Reads of 4 KiB are served over TCP by a node of 50 shards: while nobody looks, and while its metrics are scraped once a second and its page is open.
Who scrapes and who looks are in the same process, and count in its processor time.`
}

func (c *benchScrapeCmd) Run(p *process) error {
	if c.Clients < 1 || c.For < time.Second || c.Rounds < 2 {
		return fmt.Errorf("%w: --clients %d, --for %s, --rounds %d, want 1, 1s and 2 or more", errUsage, c.Clients, c.For, c.Rounds)
	}
	res, err := service.Run(p, service.Config{Clients: c.Clients, For: c.For, Rounds: c.Rounds, Phases: service.WatchPhases(),
		Progress: func(round int, ph service.Phase) {
			p.log.Info("measured", "round", round, "phase", ph.Name, "requests_per_s", int(ph.RequestsPerSecond), "per_processor_s", int(ph.PerProcessor))
		}})
	if err != nil {
		return err
	}
	res.Command = commandLine()
	return errors.Join(show(p, c.JSON, res), checkClaims(c.Check, res.Claims))
}
