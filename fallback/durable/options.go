package durable

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Policy says when an append is flushed to the disk.
type Policy int

// The policies.
const (
	// Always: Append returns after its bytes were flushed. Nothing acknowledged
	// is lost in a power failure. Concurrent appends share one flush.
	Always Policy = iota
	// Interval: Append returns, and its bytes are readable, when the kernel has
	// them; a flush follows within Options.Interval. A killed process loses
	// nothing; a power failure loses up to that much time, and the shard then gets
	// a new incarnation.
	Interval
	// Never: like Interval, but flushed only at roll-over and by Log.Flush, Seal
	// and Close.
	Never
)

// String returns always, interval or never.
func (p Policy) String() string {
	switch p {
	case Always:
		return "always"
	case Interval:
		return "interval"
	case Never:
		return "never"
	}
	return fmt.Sprintf("policy %d", int(p))
}

// ParsePolicy reads what String writes.
func ParsePolicy(s string) (Policy, error) {
	for p := Always; p <= Never; p++ {
		if s == p.String() {
			return p, nil
		}
	}
	return 0, fmt.Errorf("flush policy %.20q: want always, interval or never", s)
}

// Limits of the format.
const (
	// MaxAppend is the largest single append in bytes.
	MaxAppend = wire.MaxAppend
	// maxGroup bounds a group, and so what a crash can leave beyond the mark.
	maxGroup = 4 << 20
	// NoOffset appends at the end, wherever that is.
	NoOffset = wire.NoOffset
)

// Options of a directory store. The zero value of a field means its default.
type Options struct {
	// ReadOnly refuses Log, and makes Open fail when the directory is missing.
	ReadOnly bool
	// Policy is when appends are flushed; default Always.
	Policy Policy
	// Interval is the longest time that policy Interval leaves bytes unflushed;
	// default 100 ms, at least 1 ms.
	Interval time.Duration
	// SegmentBytes is the size at which a segment rolls over; default 256 MiB. A
	// segment is larger only when a single append is.
	SegmentBytes int64
	// SegmentAge is the age at which a non-empty segment rolls over, at the next
	// append; default 1 h.
	SegmentAge time.Duration
	// RetainAge and RetainBytes are what Dir.Retain keeps of a shard at least: what
	// was appended within that time, and so many of its last bytes. Whole segments
	// go, so that up to a segment more stays; with both set, either removes. Zero
	// keeps everything.
	RetainAge   time.Duration
	RetainBytes int64
	// QueueBytes bounds what waits for the flush under way, per open log; callers
	// of Append block above it. Default and maximum 4 MiB, at least MaxAppend. A
	// log uses up to twice that.
	QueueBytes int
	// OpenFiles bounds the descriptors kept for reading; default 256. Reads under
	// way may exceed it for their duration.
	OpenFiles int
	// Clock names segments and ages them; default time.Now.
	Clock func() time.Time
	// Logger gets recoveries and roll-overs; default none.
	Logger *slog.Logger

	fs    fsys                               // of the write side; tests inject faults here
	names func(dir string) ([]string, error) // of the read side; tests count here
}

func (o Options) withDefaults() (Options, error) {
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	def(&o.Interval, 100*time.Millisecond)
	def(&o.SegmentAge, time.Hour)
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 256 << 20
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = maxGroup
	}
	if o.OpenFiles == 0 {
		o.OpenFiles = 256
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.fs == nil {
		o.fs = osFS{}
	}
	if o.names == nil {
		o.names = osFS{}.Names
	}
	switch {
	case o.Policy < Always || o.Policy > Never:
		return o, fmt.Errorf("flush policy %d: want Always, Interval or Never", int(o.Policy))
	case o.Interval < time.Millisecond:
		return o, fmt.Errorf("flush interval %v: want 1ms or more", o.Interval)
	case o.SegmentAge < 0 || o.SegmentBytes < 1:
		return o, fmt.Errorf("segments of %d bytes or %v: want more than nothing", o.SegmentBytes, o.SegmentAge)
	case o.RetainAge < 0 || o.RetainBytes < 0:
		return o, fmt.Errorf("retention of %v or %d bytes: want 0 (everything) or more", o.RetainAge, o.RetainBytes)
	case o.QueueBytes < MaxAppend || o.QueueBytes > maxGroup:
		return o, fmt.Errorf("queue of %d bytes: want %d to %d", o.QueueBytes, MaxAppend, maxGroup)
	case o.OpenFiles < 1:
		return o, fmt.Errorf("%d open files: want 1 or more", o.OpenFiles)
	}
	return o, nil
}
