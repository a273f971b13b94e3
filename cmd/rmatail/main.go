// Command rmatail serves, appends to and follows streams.
//
// Data goes to standard output and everything else to standard error, so that
// the output of tail, ls and stat can be piped. Every flag can be set in the
// environment: --log-level is RMATAIL_LOG_LEVEL. SIGINT and SIGTERM end a
// command in good order (what was read is appended, what was accepted is
// flushed), a second one at once.
//
// Exit codes: 0 done, 1 error, 2 usage, 3 gap (the position asked for is no
// longer kept).
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/rmatail/rmatail/auth"
)

// cli is every command and flag.
type cli struct {
	Log  logFlags  `embed:"" prefix:"log-"`
	Auth authFlags `embed:""`

	Serve   serveCmd   `cmd:"" help:"Run a node: the cache that consumers read one-sidedly and, with --dir, the durable store."`
	Append  appendCmd  `cmd:"" help:"Append standard input, a file, or a file that grows, to a shard."`
	Tail    tailCmd    `cmd:"" help:"Write a shard's bytes to standard output."`
	Ls      lsCmd      `cmd:"" help:"List shards."`
	Stat    statCmd    `cmd:"" help:"Show a shard, or the node."`
	Top     topCmd     `cmd:"" help:"Watch a node or a cluster: shards with the cause of what is slow, rates, memory."`
	Demo    demoCmd    `cmd:"" help:"Append a real log here, follow it with several processes, and check every byte."`
	Bench   benchCmd   `cmd:"" help:"Measure reads against their floors, what queues and batches do for producers, and what logging costs."`
	Advise  adviseCmd  `cmd:"" help:"Say from measurements whether producers need a queue, and how large."`
	Plan    planCmd    `cmd:"" help:"Compute requests, network and memory of a cluster from what it is to carry."`
	Doctor  doctorCmd  `cmd:"" help:"Find out what keeps this host from reading over RDMA, and how to mend it."`
	Cluster clusterCmd `cmd:"" help:"Check the file that describes a cluster."`
	Trace   traceCmd   `cmd:"" help:"Follow RDMA connections in captured packets: latency, losses, refusals."`
	Version versionCmd `cmd:"" help:"Show the version."`

	DemoConsumer   demoConsumerCmd   `cmd:"" hidden:"" help:"One consumer of the demo."`
	BenchReadFloor benchReadFloorCmd `cmd:"" hidden:"" help:"The plain server of bench read."`

	BenchFanoutPart benchFanoutPartCmd `cmd:"" hidden:"" help:"One process of bench fanout."`
}

// process is what a command gets from its surroundings.
type process struct {
	context.Context // done at SIGINT or SIGTERM
	stdin           io.Reader
	stdout          io.Writer
	stderr          io.Writer
	logFlags        logFlags
	screen          *screen      // standard error, for log records
	log             *slog.Logger // of the command
	quiet           *slog.Logger // of libraries under a client command
	authFlags       authFlags
	client          *auth.Client // what nodes are shown; nil: nothing
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal kills
	}()
	os.Exit(run(&process{Context: ctx, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}, os.Args[1:]))
}

// describe is the help of a flag, with its default and its variable.
func describe(v *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(v)
	if v.HasDefault {
		return strings.Replace(help, "($RMATAIL_", "(default "+v.Default+", $RMATAIL_", 1)
	}
	return help
}

// run runs one command line and returns the exit code.
func run(p *process, args []string) int {
	var c cli
	helped := -1
	parser, err := kong.New(&c,
		kong.Name("rmatail"),
		kong.Description("Ordered byte streams for thousands of consumers, read one-sidedly from a node's memory.\n\n"+
			"Every flag can be set as RMATAIL_NAME. Exit codes: 0 done, 1 error, 2 usage, 3 gap."),
		kong.DefaultEnvars("RMATAIL"),
		kong.WithHyphenPrefixedParameters(true), // --from -10
		kong.ValueFormatter(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(code int) { helped = code }),
	)
	if err != nil {
		fmt.Fprintln(p.stderr, "rmatail:", err)
		return exitError
	}
	k, err := parser.Parse(args)
	if helped >= 0 {
		return helped
	}
	if err != nil {
		return usageError(p.stderr, args, err)
	}
	p.screen = newScreen(p.stderr)
	p.logFlags, p.log, p.quiet = c.Log, c.Log.logger(p.screen), c.Log.quiet(p.screen)
	p.authFlags = c.Auth
	defer p.forget()
	return exitCode(p.stderr, k.Run(p))
}
