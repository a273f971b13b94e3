package trace

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rmatail/rmatail/rdma/roce"
)

// Options say how far a trace goes. Zero fields are no limit.
type Options struct {
	Connections int           // tracked at a time; 0: DefaultConnections
	Count       uint64        // RoCE packets
	For         time.Duration // from the first frame on, by the frames' time stamps
	Write       *Writer       // gets the RoCE packets; nil: nobody
}

// Run follows the connections in what the source gives, until its end, a limit,
// or the end of ctx, none of which is an error. The report is good also beside
// an error, for what came before it. The source stays the caller's.
func Run(ctx context.Context, src Source, o Options) (Report, error) {
	stop := context.AfterFunc(ctx, src.Stop)
	defer stop()
	t := NewTable(o.Connections)
	err := t.run(src, o)
	if o.Write != nil {
		err = errors.Join(err, o.Write.Flush())
	}
	r := t.Report()
	r.Lost = src.Lost()
	return r, err
}

func (t *Table) run(src Source, o Options) error {
	var p roce.Packet
	var first time.Time
	for o.Count == 0 || t.Packets() < o.Count {
		f, err := src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first.IsZero() {
			first = f.Time
		}
		if o.For > 0 && f.Time.Sub(first) > o.For {
			return nil
		}
		if isRoCE := t.Add(&p, p.Decode(f.Link, f.Data), f.Length, f.Time); !isRoCE || o.Write == nil {
			continue
		}
		if err := o.Write.Write(f); err != nil {
			return err
		}
	}
	return nil
}
