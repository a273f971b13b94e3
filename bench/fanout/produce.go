package fanout

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// sender brings records to a server.
type sender interface {
	// send hands whole records of one shard over, in order. It may return before
	// they have arrived, but keeps none of b.
	send(ctx context.Context, shard int, b []byte) error
	// close waits for what is under way, and removes the stream.
	close() error
}

// produced is what a producer says at its end.
type produced struct {
	Records int64 `json:"records"` // in the window
	Late    int64 `json:"late_ns"` // the most by which one was late for the schedule
}

const (
	// floodBytes is what is handed over at once at full speed.
	floodBytes = 64 << 10
	// after the window the producer goes on for a while: consumers that poll for
	// news are to meet the last records as they met the others.
	afterwards = 100 * time.Millisecond
)

func newSender(ctx context.Context, s spec) (sender, error) {
	switch s.Program {
	case SHM, RDMA, TCP, Naive:
		return newAppends(ctx, s)
	case Nginx, Pread:
		return newFiles(s)
	case RedisStreams, RedisGet:
		return newRedisSender(ctx, s)
	case JetStream:
		return newJetSender(ctx, s)
	case Memcached:
		return newMemcachedSender(ctx, s)
	case Plain:
		return newPlainSender(ctx, s)
	}
	return nil, fmt.Errorf("%w: program %d", ErrConfig, s.Program)
}

// produce is the producer's process.
func produce(ctx context.Context, s spec, in *bufio.Reader, out io.Writer) (err error) {
	opening, opened := context.WithTimeout(ctx, readyTime)
	defer opened()
	to, err := newSender(opening, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	p := &pacer{clock: newClock(), to: to, w: s.Workload, numbers: make([]uint64, s.Shards)}
	for shard := range s.Shards {
		p.shard = shard
		p.add(0)
		if err := p.flush(opening); err != nil {
			return err
		}
	}
	p.shard = 0
	if err := say(out, up{Ready: true}); err != nil {
		return err
	}
	if err := readLine(in, &p.window); err != nil {
		return err
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	if err := say(out, produced{p.records, p.late}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in) // until the benchmark has what it wants
	return err
}

// pacer makes records at the workload's rate, for one shard after the other.
type pacer struct {
	clock   clock
	to      sender
	w       Workload
	window  window
	numbers []uint64 // of each shard's next record
	shard   int      // of batch
	batch   []byte
	records int64
	late    int64
}

// add makes a record.
func (p *pacer) add(stamp int64) {
	n := len(p.batch)
	p.batch = append(p.batch, make([]byte, p.w.record())...)
	putHead(p.batch[n:], stamp, p.numbers[p.shard])
	p.numbers[p.shard]++
	if stamp >= p.window.From && stamp < p.window.To {
		p.records++
	}
}

// flush sends the batch and goes on with the next shard.
func (p *pacer) flush(ctx context.Context) error {
	err := p.to.send(ctx, p.shard, p.batch)
	p.batch = p.batch[:0]
	p.shard = (p.shard + 1) % len(p.numbers)
	return err
}

// scheduled returns when record number n, from 0 on, is handed over if nothing holds the
// producer up, in ns since it began: when it is due, or at the tick behind that. A record
// that waits because the program has not taken those before counts from then on: else
// one that takes them seldom would look fast.
func (p *pacer) scheduled(n int64) int64 {
	rate, tick := int64(p.w.perSecond()), int64(p.w.tick())
	due := ((n+1)*int64(time.Second) + rate - 1) / rate
	if p.w == Beat {
		return due
	}
	return (due + tick - 1) / tick * tick
}

// run produces until the window is over, and a little longer.
func (p *pacer) run(ctx context.Context) error {
	end := p.window.To + int64(afterwards)
	begin := p.clock.now()
	rate, tick := int64(p.w.perSecond()), int64(p.w.tick())
	done := int64(0)
	for now := begin; now < end; now = p.clock.now() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if rate == 0 {
			for len(p.batch) <= floodBytes-p.w.record() {
				p.add(now)
			}
			if err := p.flush(ctx); err != nil {
				return err
			}
			continue
		}
		if due := (now - begin) * rate / int64(time.Second); due > done {
			if now >= p.window.From && now < p.window.To {
				p.late = max(p.late, now-begin-(done+1)*int64(time.Second)/rate)
			}
			for done < due && len(p.batch) < floodBytes { // the rest goes with the next one, without a wait
				p.add(min(begin+p.scheduled(done), now))
				done++
			}
			if err := p.flush(ctx); err != nil {
				return err
			}
			if done < due {
				continue
			}
		}
		next := begin + ((now-begin)/tick+1)*tick
		if p.w == Beat {
			next = begin + (done+1)*int64(time.Second)/rate + int64(time.Microsecond)
		}
		p.clock.until(next)
	}
	return nil
}
