package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	// tick is the rhythm of appends: each carries the lines of one tick.
	tick = 5 * time.Millisecond
	// maxAppend bounds an append that catches up.
	maxAppend = 256 << 10
	// appendTimeout bounds one append.
	appendTimeout = 10 * time.Second
)

// producer appends an input's lines through the node.
type producer struct {
	shard   string
	in      *input
	client  *wire.Client
	log     *durable.Remote
	samples *sampler
	sum     hash.Hash // of everything appended
	end     uint64
	appends uint64
	// appended is end for other goroutines.
	appended atomic.Uint64
	buf      []byte
	spare    []byte // a line that did not fit
}

func newProducer(ctx context.Context, addr, shard string, in *input, samples *sampler) (*producer, error) {
	c, err := wire.Dial(ctx, addr, wire.Options{Name: "rmatail demo"})
	if err != nil {
		return nil, err
	}
	return &producer{shard: shard, in: in, client: c, log: durable.NewRemote(c), samples: samples, sum: sha256.New()}, nil
}

func (p *producer) close() error { return p.client.Close() }

// timing says whether an append is a sample.
type timing int

const (
	sampled timing = iota
	unsampled
)

// append appends lines of about n bytes, at least one line.
func (p *producer) append(ctx context.Context, n int, t timing) error {
	p.buf = append(p.buf[:0], p.spare...)
	p.spare = p.spare[:0]
	for len(p.buf) < n {
		line, err := p.in.next()
		if err != nil {
			return err
		}
		if len(p.buf) > 0 && len(p.buf)+len(line) > maxAppend {
			p.spare = append(p.spare, line...)
			break
		}
		p.buf = append(p.buf, line...)
	}
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	if t == sampled {
		if err := p.samples.add(p.end+uint64(len(p.buf)), monotonic()); err != nil {
			return err
		}
	}
	_, end, err := p.log.Append(ctx, p.shard, p.end, p.buf)
	if err != nil {
		return err
	}
	p.sum.Write(p.buf)
	p.end = end
	p.appended.Store(end)
	p.appends++
	return nil
}

// run appends at a rate in bytes a second until ctx is done or the time is over.
// What is behind the rate is caught up, in larger appends.
func (p *producer) run(ctx context.Context, rate int64, d time.Duration, sample timing) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	start, begin := time.Now(), p.end
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		elapsed := time.Since(start)
		if elapsed >= d {
			return nil
		}
		due := int64(elapsed.Seconds()*float64(rate)) - int64(p.end-begin)
		if due <= 0 {
			continue
		}
		// Not ctx: an append that has begun is finished.
		if err := p.append(context.WithoutCancel(ctx), int(min(due, maxAppend)), sample); err != nil {
			return fmt.Errorf("append at %d: %w", p.end, err)
		}
	}
}

// verify compares the durable files with what was appended.
func (p *producer) verify(ctx context.Context, dir string) error {
	d, err := durable.Open(dir, durable.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer d.Close()
	files := sha256.New()
	buf := make([]byte, 1<<20)
	pos := uint64(0)
	for pos < p.end {
		n, err := d.ReadAt(ctx, p.shard, pos, buf[:min(uint64(len(buf)), p.end-pos)])
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("durable files at %d of %d: %w", pos, p.end, err)
		}
		files.Write(buf[:n])
		pos += uint64(n)
	}
	if a, b := p.sum.Sum(nil), files.Sum(nil); string(a) != string(b) {
		return fmt.Errorf("the durable files do not hold what was appended: SHA-256 %x, want %x", b, a)
	}
	return nil
}
