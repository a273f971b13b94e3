package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

type appendCmd struct {
	Server     string        `help:"The node's address. Default 127.0.0.1:7440 if there is no --cluster and no --dir either." placeholder:"HOST:PORT"`
	Cluster    string        `help:"The file that describes a cluster (YAML): append through the node that owns its store, or to the directory that is its store." placeholder:"FILE"`
	Dir        string        `help:"Append to this durable directory directly, as the shard's only writer. With --server or --cluster the nodes there mirror what is appended." placeholder:"DIR" type:"path"`
	Policy     policy        `help:"With --dir: when appends are flushed to the disk: always, interval or never." default:"always" placeholder:"NAME"`
	Seal       bool          `help:"With --dir: seal the shard at the end, so that followers end too."`
	Shard      shard         `arg:"" help:"The shard, such as logs/0000. It is created when it does not exist."`
	File       string        `arg:"" optional:"" help:"What to append. Default: standard input." type:"path"`
	Follow     string        `help:"Append this file from its beginning, and what is appended to it, through rotation by renaming and by truncation, until a signal. --resume goes on where it was. A last line without an end waits for it." placeholder:"FILE" type:"path" env:"RMATAIL_APPEND_FOLLOW"`
	Resume     bool          `help:"Go on behind what is durable of the same input: a file, or standard input from one. Where the input begins in the shard is kept in a state file; how far it is there, the shard's length tells, and the bytes there are compared. So nothing is lost or doubled wherever it was interrupted, as long as nobody else appends to the shard. The bytes are appended as they are, a missing last line end with them."`
	State      string        `help:"With --resume: the state file. Default: one for each input, shard and store below $XDG_STATE_HOME/rmatail (~/.local/state/rmatail). Remove it to append the input from its beginning." placeholder:"FILE" type:"path"`
	Raw        bool          `help:"Append the bytes as they are. Otherwise appends end at ends of lines, and a last line without one gets it."`
	Batch      size          `help:"At most so many bytes in one append (up to 1MiB; a longer line is split)." default:"512KiB" placeholder:"SIZE"`
	BatchLines int           `help:"At most so many lines in one append. Default: as many as fit." placeholder:"N"`
	Linger     time.Duration `help:"How long an append waits for more input." default:"2ms" placeholder:"TIME"`
	Partial    time.Duration `name:"partial-timeout" help:"With --follow: append an unfinished last line after so long without its end. 0s: never." default:"10s" placeholder:"TIME"`
	RotateWait time.Duration `help:"With --follow: a file that was renamed has ended when nothing has come for so long. What is written to it later is not seen." default:"2s" placeholder:"TIME"`
	InFlight   size          `help:"How many bytes may be on their way to the node at once, in several appends, or with --dir wait for the flush before them (up to 6MiB). 1B: one append at a time; use that when several processes append to the shard." default:"4MiB" placeholder:"SIZE"`
	Rate       size          `help:"Append at most so many bytes a second, on average. Default: as fast as it goes." placeholder:"SIZE"`
	WhenFull   overflow      `help:"What happens to standard input that comes faster than it is appended: block (its writer waits), drop-newest or drop-oldest, by whole appends. What is dropped is counted, and the exit code is 1." default:"block" placeholder:"NAME"`
	Queue      size          `help:"How much of the input waits before it is dropped." default:"16MiB" placeholder:"SIZE"`
	RetryFor   time.Duration `help:"How long to try again when the node is away, or the disk full. Nothing is appended twice." default:"30s" placeholder:"TIME"`
	JSON       bool          `name:"json" help:"Summary as one JSON object on standard output."`
}

// appended is the summary of an append. Its keys are an interface.
type appended struct {
	Shard     string `json:"shard"`
	From      uint64 `json:"from"`  // where the first byte lies; other writers' may lie between
	To        uint64 `json:"to"`    // behind the last byte
	Bytes     uint64 `json:"bytes"` // appended, acknowledged as durable by policy
	Input     uint64 `json:"input"` // bytes of input that they stand for
	Lines     uint64 `json:"lines"`
	LongLines uint64 `json:"long_lines"` // that no append could hold: they lie in pieces, in order
	Appends   uint64 `json:"appends"`
	Retries   uint64 `json:"retries"`
	// Bytes of input, and lines, that --when-full has dropped.
	Dropped      uint64 `json:"dropped"`
	DroppedLines uint64 `json:"dropped_lines"`
	// Files followed that were renamed, or truncated after a copy that was read.
	Rotations uint64 `json:"rotations"`
	// Files followed whose rest may be lost: no copy was found.
	Truncations uint64  `json:"truncations"`
	Seconds     float64 `json:"seconds"`
}

// ledger counts what is durable. Any goroutine.
type ledger struct {
	mu struct {
		sync.Mutex
		appended
	}
}

func (l *ledger) durable(b *batch, pos uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.Appends == 0 {
		l.mu.From = pos
	}
	l.mu.To = pos + uint64(len(b.data))
	l.mu.Appends++
	l.mu.Bytes += uint64(len(b.data))
	l.mu.Input += uint64(b.input)
	l.mu.Lines += uint64(b.lines)
}

func (l *ledger) dropped(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.Dropped += uint64(b.input)
	l.mu.DroppedLines += uint64(b.lines)
}

func (l *ledger) sum() appended {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.appended
}

func (c *appendCmd) check() error {
	switch {
	case c.Batch < 1 || c.Batch > durable.MaxAppend:
		return fmt.Errorf("%w: --batch %s, want 1 to 1MiB", errUsage, c.Batch)
	case c.InFlight < 1 || c.InFlight > 6<<20:
		return fmt.Errorf("%w: --in-flight %s, want 1 to 6MiB", errUsage, c.InFlight)
	case c.BatchLines < 0 || c.Linger < 0 || c.RetryFor < 0 || c.Partial < 0 || c.RotateWait < 0:
		return fmt.Errorf("%w: a number is negative", errUsage)
	case c.File != "" && c.Follow != "":
		return fmt.Errorf("%w: a file to append and a file to follow: one input at a time", errUsage)
	case c.WhenFull != block && (c.Resume || c.Follow != "" || c.File != ""):
		return fmt.Errorf("%w: --when-full drops from standard input only: a file can wait", errUsage)
	case c.Queue < 1:
		return fmt.Errorf("%w: --queue %s", errUsage, c.Queue)
	case c.State != "" && !c.Resume:
		return fmt.Errorf("%w: --state needs --resume", errUsage)
	case c.Dir == "" && c.Cluster == "" && c.Seal:
		return errSealNeedsDir
	}
	return c.where().check()
}

var errSealNeedsDir = fmt.Errorf("%w: --seal needs --dir: only the shard's own writer can seal it", errUsage)

func (c *appendCmd) where() storeFlags {
	return storeFlags{Server: c.Server, Cluster: c.Cluster, Dir: c.Dir}
}

func (c *appendCmd) Run(p *process) error {
	if err := c.check(); err != nil {
		return err
	}
	began := time.Now()
	var account ledger
	account.mu.Shard = c.Shard.String()
	source, err := c.where().openCluster(p)
	if err != nil {
		return err
	}
	if source != nil {
		defer source.Close()
	}
	var in *batches
	s, err := c.open(p, source, func(b *batch, pos uint64) {
		account.durable(b, pos)
		in.recycle(b)
	})
	if err != nil {
		return err
	}
	if c.Rate > 0 {
		s = &paced{sink: s, hurry: p, pace: pace{perSecond: float64(c.Rate)}}
	}
	if c.WhenFull != block {
		s = newQueue(s, c.WhenFull, int(c.Queue), func(b *batch) {
			account.dropped(b)
			in.recycle(b)
		})
	}
	input, err := c.intake(p, s)
	if err != nil {
		return errors.Join(err, s.close(p))
	}
	in = newBatches(p, input.feed, c.cutting())
	in.inLine = input.inLine
	defer func() {
		in.stop()
		if len(input.closers) > 0 { // files, which do not block for long
			<-in.over
			input.close()
		}
	}()
	s.start(input.from, input.fixed)
	shown := showProgress(p, &account, input.size)
	err = c.copy(p, s, in)
	shown()
	if c.Follow != "" && errors.Is(err, errInterrupted) {
		err = nil
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(p), openTimeout)
	defer cancel()
	if err == nil && c.Seal {
		err = s.seal(closing)
	}
	if closeErr := s.close(closing); err == nil {
		err = closeErr
	}
	sum := account.sum()
	sum.Rotations, sum.Truncations = input.rotations.Load(), input.truncations.Load()
	sum.LongLines, sum.Retries, sum.Seconds = uint64(in.long), s.retries(), time.Since(began).Seconds()
	c.report(p, sum, err)
	switch {
	case err == nil && sum.Dropped > 0:
		return fmt.Errorf("%w: %d, with %d bytes; a larger --queue holds more", errDropped, sum.DroppedLines, sum.Dropped)
	case err != nil && c.Resume:
		return fmt.Errorf("after %d bytes of input: %w; the same command goes on there", sum.Input, err)
	case err != nil:
		return fmt.Errorf("after %d bytes of input: %w; append the rest with: tail -c +%d FILE | rmatail append ...", sum.Input, err, sum.Input+1)
	}
	return nil
}

// cutting cuts lines. An input that can be resumed is appended byte by byte as it
// is; only a file that was followed to its end gets the end of its last line, so
// that the next file begins a line.
func (c *appendCmd) cutting() cutting {
	k := cutting{limit: int(c.Batch), lines: c.BatchLines, linger: c.Linger, byLine: !c.Raw, addEnd: !c.Raw && (c.Follow != "" || !c.Resume)}
	if c.Follow != "" {
		k.partial, k.flushed = c.Partial, !c.Resume
	}
	return k
}

// open opens what is appended to; source is the cluster, or nil. done is called for
// each batch that is durable.
func (c *appendCmd) open(p *process, source *file.Source, done func(b *batch, pos uint64)) (sink, error) {
	dir, addr := c.Dir, c.where().address
	if source != nil && dir == "" {
		addr = func() string { return ownerOf(source) }
		if addr() == "" {
			dir = source.Current().Store.Dir
		}
	}
	if dir != "" {
		var mirror cluster.Source
		switch {
		case source != nil:
			mirror = source
		case c.Server != "":
			mirror = cluster.Single(c.Server)
		}
		a, err := c.openDir(p, dir, mirror)
		if err != nil {
			return nil, err
		}
		d := &direct{dirAppender: a, shard: c.Shard.String(), done: done}
		if err := d.find(p); err != nil {
			return nil, errors.Join(err, d.close(p))
		}
		return d, nil
	}
	if c.Seal {
		return nil, errSealNeedsDir
	}
	pl := &pipeline{shard: c.Shard.String(), retryFor: c.RetryFor, inFlight: int(c.InFlight), done: done,
		dial: func(ctx context.Context) (*wire.Client, error) { return dial(ctx, p, addr()) },
		note: func(err error) { p.log.Warn("trying again", "err", err) }}
	ctx, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	if err := pl.open(ctx); err != nil {
		return nil, err
	}
	return pl, nil
}

// copy appends the input. What was read before a signal is still appended.
func (c *appendCmd) copy(p *process, s sink, in *batches) error {
	for b := range in.all() {
		if b.border != nil {
			if err := s.flush(); err != nil {
				return err
			}
			if err := b.border(s.length()); err != nil {
				return err
			}
			continue
		}
		if err := s.send(b); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	return in.err()
}

func (c *appendCmd) report(p *process, sum appended, err error) {
	if c.JSON {
		if encErr := json.NewEncoder(p.stdout).Encode(sum); encErr != nil {
			p.log.Error("summary not written", "err", encErr)
		}
		return
	}
	if err != nil && sum.Appends == 0 {
		return
	}
	if sum.Appends == 0 {
		fmt.Fprintf(p.stderr, "appended nothing to %s: no input\n", sum.Shard)
		return
	}
	fmt.Fprintf(p.stderr, "appended %d lines, %d bytes to %s at [%d, %d) in %.3f s (%d appends, %.1f MB/s)\n",
		sum.Lines, sum.Bytes, sum.Shard, sum.From, sum.To, sum.Seconds, sum.Appends, float64(sum.Bytes)/1e6/max(sum.Seconds, 1e-6))
	if sum.LongLines > 0 {
		fmt.Fprintf(p.stderr, "%d lines were longer than an append (--batch) and lie in pieces, in order\n", sum.LongLines)
	}
}

// policy is a durable.Policy as a flag.
type policy durable.Policy

func (v *policy) UnmarshalText(text []byte) error {
	d, err := durable.ParsePolicy(string(text))
	*v = policy(d)
	return err
}
