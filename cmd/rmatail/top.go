package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/watch"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

type topCmd struct {
	storeFlags
	Stream string        `arg:"" optional:"" help:"Only shards of this stream, or one shard, such as logs or logs/0000." placeholder:"STREAM"`
	Shards int           `help:"Look at so many shards at most." default:"1000" placeholder:"N"`
	Every  time.Duration `help:"Time between two looks. 1s; of --once 1.2s, in which a producer has beaten." placeholder:"TIME"`
	Once   bool          `help:"Look twice, print what has happened in between, and end."`
	JSON   bool          `name:"json" help:"One JSON object a line for each look, instead of a screen."`
}

func (c *topCmd) Help() string {
	return `Shows what a node's page shows: nodes, shards with the cause of what is slow, rates, and memory by age. q or Ctrl-C ends it.

What consumers read over shared memory and RDMA passes no node: it is known of those that report (rmatail tail does, and a process whose
reader.Config has a Name), and in their own metrics (rmatail_reader_*).`
}

func (c *topCmd) Run(p *process) error {
	if c.Every == 0 {
		c.Every = time.Second
		if c.Once {
			c.Every = secondLook
		}
	}
	if c.Shards < 1 || c.Every < 100*time.Millisecond {
		return fmt.Errorf("%w: --shards %d, --every %s, want 1 or more and 100ms or more", errUsage, c.Shards, c.Every)
	}
	size := terminal(p.stdout)
	if size == nil && !c.Once && !c.JSON {
		return fmt.Errorf("%w: standard output is no terminal: --once prints one look, --json one a line", errUsage)
	}
	source, err := c.source(p)
	if err != nil {
		return err
	}
	if closer, ok := source.(io.Closer); ok {
		defer closer.Close()
	}
	if !c.Once && !c.JSON {
		p.quiet = slog.New(slog.DiscardHandler) // warnings would be drawn over, and what they say is shown
	}
	w := watch.New(c.watching(p, source))
	defer w.Close()
	switch {
	case c.JSON:
		out := json.NewEncoder(p.stdout)
		return c.each(p, w, func(f *watch.Frame) error { return out.Encode(f) })
	case c.Once:
		return c.each(p, w, func(f *watch.Frame) error { return writeLines(p.stdout, drawFrame(f, plainStyle, wide, 0)) })
	}
	return c.screen(p, w, size)
}

// wide is the width of what is no screen.
const wide = 160

// source is the cluster: a file's, or that of one node.
func (c *topCmd) source(p *process) (cluster.Source, error) {
	file, err := c.openCluster(p)
	switch {
	case err != nil:
		return nil, err
	case file != nil:
		return file, nil
	case c.address() == "":
		return nil, fmt.Errorf("%w: a directory has no node to show; name one with --server, or a cluster with --cluster", errUsage)
	}
	return cluster.Single(c.address()), nil
}

func (c *topCmd) watching(p *process, source cluster.Source) watch.Options {
	o := watch.Options{
		View:   func() *cluster.View { v, _ := source.View(); return v },
		Dial:   func(ctx context.Context, addr string) (*wire.Client, error) { return dial(ctx, p, addr) },
		Shards: c.Shards,
	}
	if c.Stream != "" {
		o.Wanted = wantedShards(c.Stream)
	}
	if v := o.View(); c.Dir != "" || v.Store.Node == "" && v.Store.Dir != "" {
		o.List = func(ctx context.Context, after string, limit int) ([]durable.Entry, error) {
			s, err := openStore(ctx, p, c.storeFlags)
			if err != nil {
				return nil, err
			}
			defer s.Close()
			return s.List(ctx, after, limit)
		}
	}
	return o
}

// wantedShards says which shards are of a stream, or are the one that is named.
func wantedShards(name string) func(string) bool {
	var one shard
	if one.UnmarshalText([]byte(name)) == nil {
		return func(s string) bool { return s == one.String() }
	}
	return func(s string) bool { return len(s) > len(name) && s[:len(name)] == name && s[len(name)] == '/' }
}

// each shows looks that have one before them, until the end is asked for.
func (c *topCmd) each(p *process, w *watch.Watcher, show func(*watch.Frame) error) error {
	t := time.NewTicker(c.Every)
	defer t.Stop()
	for {
		f := w.Next(p)
		if p.Err() != nil {
			return nil
		}
		if f.Window > 0 {
			if err := show(f); err != nil || c.Once {
				return err
			}
		}
		select {
		case <-t.C:
		case <-p.Done():
			return nil
		}
	}
}

// errQuit ends the screen.
var errQuit = errors.New("quit")

// screen draws on a terminal, in the place of what is there, which comes back after.
func (c *topCmd) screen(p *process, w *watch.Watcher, size func() (columns, rows int)) (err error) {
	keys := make(chan byte, 1)
	if in, ok := p.stdin.(*os.File); ok && terminal(in) != nil {
		restore, err := singleKeys(in)
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		defer func() { err = errors.Join(err, restore()) }()
		go func() { // ends with the process: nothing interrupts a read of a terminal
			b := make([]byte, 1)
			for {
				if n, err := in.Read(b); n == 0 || err != nil {
					return
				}
				select {
				case keys <- b[0]:
				default:
				}
			}
		}()
	}
	fmt.Fprint(p.stdout, "\x1b[?1049h\x1b[?25l") // another screen, no cursor
	defer fmt.Fprint(p.stdout, "\x1b[?25h\x1b[?1049l")
	style := colorStyle
	if os.Getenv("NO_COLOR") != "" {
		style = plainStyle
	}
	t := time.NewTicker(c.Every)
	defer t.Stop()
	for {
		f := w.Next(p)
		columns, rows := size()
		if err := drawScreen(p.stdout, drawFrame(f, style, max(columns, 20), max(rows, 2))); err != nil {
			return err
		}
		if err := c.wait(p, t.C, keys); err != nil {
			return nil // asked for
		}
	}
}

// wait returns at the next look, or with errQuit.
func (c *topCmd) wait(p *process, next <-chan time.Time, keys <-chan byte) error {
	for {
		select {
		case <-next:
			return nil
		case <-p.Done():
			return errQuit
		case k := <-keys:
			if k == 'q' || k == 'Q' || k == 3 || k == 4 {
				return errQuit
			}
		}
	}
}

// drawScreen writes lines over what is there, in one write.
func drawScreen(out io.Writer, lines []string) error {
	b := []byte("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b = append(b, "\r\n"...)
		}
		b = append(append(b, l...), "\x1b[K"...)
	}
	_, err := out.Write(append(b, "\x1b[J"...))
	return err
}

func writeLines(out io.Writer, lines []string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(out, l); err != nil {
			return err
		}
	}
	return nil
}
