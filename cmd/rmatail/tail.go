package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/rmatail/rmatail/reader"
)

type tailCmd struct {
	readFlags
	Shard       shard  `arg:"" help:"The shard, such as logs/0000."`
	From        start  `help:"Where to begin: earliest, latest, a byte position, or -N for the last N lines." default:"-10" placeholder:"WHERE"`
	Count       uint64 `short:"n" help:"Stop after N records (lines). 0: no limit." default:"0" placeholder:"N"`
	Follow      bool   `short:"f" help:"Wait for more at the end, until the shard is sealed. Without it tail stops at the end there was when it began."`
	Rate        size   `help:"Read at most so many bytes a second, on average. Default: as fast as it goes." placeholder:"SIZE"`
	DurableRate size   `help:"Read at most so many bytes a second from the durable store. Default: no limit." placeholder:"SIZE"`
	HTTP        string `name:"http" help:"Serve the reader's metrics at /metrics of this address while it runs." placeholder:"HOST:PORT"`
	Output      string `short:"o" help:"raw: the bytes as they are. json: one object a line with shard, position, source and data." enum:"raw,json" default:"raw" placeholder:"FORMAT"`
}

func (c *tailCmd) Help() string {
	return `A record is a line with its newline. In JSON, "position" is the record's first byte, "source" where its last byte came from
(shm, rdma, tcp or durable), and the line without its newline is in "data", or in "base64" if it is not UTF-8. A record without
an end of line has "partial":true: a line longer than 1 MiB comes in pieces, and the last one may be unfinished.

Go on after an interruption with --from POSITION, the position after the last byte that was dealt with.

Examples:
  rmatail tail logs/0000                            the last 10 lines
  rmatail tail logs/0000 --from earliest > copy     everything that is kept
  rmatail tail logs/0000 --from latest -f -o json   what is appended from now on`
}

// processName is what this process is called where nodes are looked at.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("tail %d at %s", os.Getpid(), host)
}

// openTimeout bounds connecting and looking a shard up.
const openTimeout = 15 * time.Second

// errInterrupted ends a command that a signal stopped before it was done.
var errInterrupted = errors.New("interrupted")

func (c *tailCmd) Run(p *process) error {
	if c.Dir != "" {
		if _, err := os.Stat(c.Dir); err != nil {
			return fmt.Errorf("durable directory: %w", err)
		}
	}
	source, err := c.openCluster(p)
	if err != nil {
		return err
	}
	if source != nil {
		defer source.Close()
	}
	opening, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	cfg := c.config(p, source)
	cfg.DurableBytesPerSecond = int64(c.DurableRate)
	cfg.Name = processName()
	if c.HTTP != "" {
		m, err := serveMetrics(p, c.HTTP)
		if err != nil {
			return err
		}
		defer m.close()
		cfg.Registerer = m.registry
	}
	cluster, err := reader.Open(opening, cfg)
	if err != nil {
		return err
	}
	defer cluster.Close()
	r, end, err := c.open(p, opening, cluster)
	if err != nil {
		return err
	}
	defer r.Close()
	out := bufio.NewWriterSize(p.stdout, 64<<10)
	err = c.copy(p, cluster, r, end, out)
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return err
}

// open finds where to begin and where to end: with --follow nowhere.
func (c *tailCmd) open(p *process, opening context.Context, cluster *reader.Cluster) (r *reader.Reader, end uint64, err error) {
	name := c.Shard.String()
	r, err = cluster.Reader(opening, name, c.From.reader(), reader.Rate(int64(c.Rate)))
	if err != nil {
		return nil, 0, err
	}
	last, err := cluster.Reader(opening, name, reader.Latest())
	if err != nil {
		r.Close()
		return nil, 0, err
	}
	end = last.Position()
	last.Close()
	if c.From.lines > 0 {
		pos, err := lineStart(p, r, end, c.From.lines)
		if err == nil {
			err = r.Seek(p, reader.At(pos))
		}
		if err != nil {
			r.Close()
			return nil, 0, err
		}
	}
	if c.Follow {
		end = math.MaxUint64
	}
	return r, end, nil
}

// copy moves [r.Position(), end) to out, and says when the source changes.
func (c *tailCmd) copy(p *process, cluster *reader.Cluster, r *reader.Reader, end uint64, out *bufio.Writer) error {
	records := newRecords(c.Shard.String(), r.Position(), c.Count, out, c.Output == "json")
	source := reader.Source(-1)
	for r.Position() < end {
		b, err := r.Next(p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c.ended(p, records, err)
		}
		if b.Source != source {
			if source = b.Source; source == reader.FromDurable {
				why := "the node's memory does not have it"
				if st := cluster.Stats(); st.Transport == "none" {
					why = st.Why
				}
				p.log.Info("reading from the durable store", "position", b.Position, "why", why)
			} else {
				p.log.Info("reading from the cache", "transport", source.String(), "position", b.Position, "why", cluster.Stats().Why)
			}
		}
		data := b.Data
		if over := b.Position + uint64(len(data)); over > end {
			data = data[:uint64(len(data))-(over-end)]
		}
		full, err := records.add(data, source)
		if err != nil || full {
			return err
		}
		if r.Lag() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
	return records.end()
}

// ended is what a failed Next means to the caller of the command.
func (c *tailCmd) ended(p *process, records *records, err error) error {
	if p.Err() == nil {
		return err
	}
	if c.Follow { // the only way to end it
		return nil
	}
	return fmt.Errorf("%w at position %d of %s; go on with --from %d", errInterrupted, records.position(), c.Shard, records.position())
}
