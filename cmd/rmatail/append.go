package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
)

type appendCmd struct {
	Server   string        `help:"The node's address. Default 127.0.0.1:7440 if there is no --dir either." placeholder:"HOST:PORT"`
	Dir      string        `help:"Append to this durable directory directly, as the shard's only writer. With --server its cache mirrors what is appended." placeholder:"DIR" type:"path"`
	Policy   policy        `help:"With --dir: when appends are flushed to the disk: always, interval or never." default:"always" placeholder:"NAME"`
	Seal     bool          `help:"With --dir: seal the shard at the end, so that followers end too."`
	Shard    shard         `arg:"" help:"The shard, such as logs/0000. It is created when it does not exist."`
	Raw      bool          `help:"Append the bytes as they are. Otherwise appends end at ends of lines, and a last line without one gets it."`
	Batch    size          `help:"At most so many bytes in one append (up to 1MiB; a longer line is split)." default:"256KiB" placeholder:"SIZE"`
	Linger   time.Duration `help:"How long an append waits for more input." default:"2ms" placeholder:"TIME"`
	RetryFor time.Duration `help:"How long to try again when the node is away. Nothing is appended twice." default:"30s" placeholder:"TIME"`
	JSON     bool          `name:"json" help:"Summary as one JSON object on standard output."`
}

// appended is the summary of an append. Its keys are an interface.
type appended struct {
	Shard   string  `json:"shard"`
	From    uint64  `json:"from"`  // where the first byte lies; other writers' may lie between
	To      uint64  `json:"to"`    // behind the last byte
	Bytes   uint64  `json:"bytes"` // appended, acknowledged as durable by policy
	Input   uint64  `json:"input"` // bytes of input that they stand for
	Lines   uint64  `json:"lines"`
	Appends uint64  `json:"appends"`
	Retries uint64  `json:"retries"`
	Seconds float64 `json:"seconds"`
}

func (c *appendCmd) Run(p *process) error {
	switch {
	case c.Batch < 1 || c.Batch > durable.MaxAppend:
		return fmt.Errorf("%w: --batch %s, want 1 to 1MiB", errUsage, c.Batch)
	case c.Linger < 0 || c.RetryFor < 0:
		return fmt.Errorf("%w: a time is negative", errUsage)
	case c.Dir == "" && c.Seal:
		return fmt.Errorf("%w: --seal needs --dir: only the shard's own writer can seal it", errUsage)
	}
	a, err := c.open(p)
	if err != nil {
		return err
	}
	start := time.Now()
	in := newBatches(p, p.stdin, int(c.Batch), c.Linger, !c.Raw)
	defer in.stop()
	sum := appended{Shard: c.Shard.String()}
	err = c.copy(p, a, in, &sum)
	closing, cancel := context.WithTimeout(context.WithoutCancel(p), openTimeout)
	defer cancel()
	if err == nil && c.Seal {
		err = a.seal(closing)
	}
	if closeErr := a.close(closing); err == nil {
		err = closeErr
	}
	sum.Retries, sum.Seconds = a.retries(), time.Since(start).Seconds()
	c.report(p, sum, err)
	if err != nil {
		return fmt.Errorf("after %d bytes of input: %w; append the rest with: tail -c +%d FILE | rmatail append ...", sum.Input, err, sum.Input+1)
	}
	return nil
}

// copy appends the input. What was read before a signal is still appended.
func (c *appendCmd) copy(p *process, a appender, in *batches, sum *appended) error {
	ctx := context.WithoutCancel(p)
	for b := range in.all() {
		pos, end, err := a.append(ctx, b.data)
		if err != nil {
			return err
		}
		if sum.Appends == 0 {
			sum.From = pos
		}
		sum.To = end
		sum.Appends++
		sum.Bytes += uint64(len(b.data))
		sum.Input += uint64(b.input)
		sum.Lines += uint64(b.lines)
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
	fmt.Fprintf(p.stderr, "appended %d lines, %d bytes to %s at [%d, %d) in %.3f s (%d appends)\n",
		sum.Lines, sum.Bytes, sum.Shard, sum.From, sum.To, sum.Seconds, sum.Appends)
}

// policy is a durable.Policy as a flag.
type policy durable.Policy

func (v *policy) UnmarshalText(text []byte) error {
	d, err := durable.ParsePolicy(string(text))
	*v = policy(d)
	return err
}
