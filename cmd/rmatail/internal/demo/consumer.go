package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/reader"
)

// ConsumerConfig is what one consumer process is told.
type ConsumerConfig struct {
	Reader  reader.Config
	Shard   string
	Dir     string // the durable directory, to compare with
	Samples string // file of samples
	Control io.Reader
	Out     io.Writer // of Snapshots
}

const (
	reportEvery = 250 * time.Millisecond
	// drainTime bounds how long a consumer looks for the end after it was told.
	drainTime = 15 * time.Second
)

// consumer follows one shard and compares.
type consumer struct {
	cfg     ConsumerConfig
	cluster *reader.Cluster
	r       *reader.Reader
	store   *durable.Dir
	samples *sampleReader
	want    []byte

	mu struct {
		sync.Mutex
		delivered, wrong, gaps, position uint64
		times                            Histogram
	}
}

// Consume follows the shard from its first byte until it is told to stop, and
// reports to cfg.Out. The last Snapshot has the error too.
func Consume(ctx context.Context, cfg ConsumerConfig) (err error) {
	c := &consumer{cfg: cfg}
	defer func() { err = errors.Join(err, c.close()) }()
	opening, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if c.cluster, err = reader.Open(opening, cfg.Reader); err != nil {
		return err
	}
	if c.r, err = c.cluster.Reader(opening, cfg.Shard, reader.Earliest()); err != nil {
		return err
	}
	if c.store, err = durable.Open(cfg.Dir, durable.Options{ReadOnly: true}); err != nil {
		return err
	}
	if c.samples, err = openSamples(cfg.Samples); err != nil {
		return err
	}
	return c.run(ctx)
}

func (c *consumer) close() (err error) {
	if c.r != nil {
		err = c.r.Close()
	}
	if c.cluster != nil {
		err = errors.Join(err, c.cluster.Close())
	}
	if c.store != nil {
		err = errors.Join(err, c.store.Close())
	}
	if c.samples != nil {
		err = errors.Join(err, c.samples.close())
	}
	return err
}

// run follows until the parent names the end, then up to it.
func (c *consumer) run(ctx context.Context) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	end := make(chan uint64, 1)
	go func() { // ends with the control pipe, that is with the parent
		end <- readEnd(c.cfg.Control)
		stop()
	}()
	reporting, stopReports := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { c.report(reporting) })
	err := c.follow(following, math.MaxUint64)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		draining, cancel := context.WithTimeout(ctx, drainTime)
		err = c.follow(draining, <-end)
		cancel()
	}
	stopReports()
	reports.Wait()
	last := c.snapshot()
	last.Done = true
	if err != nil {
		last.Error = err.Error()
	}
	return errors.Join(err, c.send(last))
}

// readEnd waits for "end N"; a pipe that closes without it means: stop here.
func readEnd(control io.Reader) (end uint64) {
	line, err := bufio.NewReader(control).ReadString('\n')
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(line, "end %d", &end); err != nil {
		return 0
	}
	return end
}

// follow takes what comes until position end is reached.
func (c *consumer) follow(ctx context.Context, end uint64) error {
	for c.r.Position() < end {
		at := c.r.Position()
		b, err := c.r.Next(ctx)
		now := monotonic()
		if err != nil {
			if errors.Is(err, reader.ErrGap) {
				c.mu.Lock()
				c.mu.gaps++
				c.mu.Unlock()
			}
			if end != math.MaxUint64 {
				err = fmt.Errorf("stopped at position %d of %d: %w", at, end, err)
			}
			return err
		}
		// Bytes that were handed out are counted, whatever ctx has become.
		if err := c.take(context.WithoutCancel(ctx), at, b, now); err != nil {
			return err
		}
	}
	return nil
}

// take compares a batch and counts it.
func (c *consumer) take(ctx context.Context, at uint64, b reader.Batch, now time.Duration) error {
	wrong, err := c.compare(ctx, b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.Position != at {
		c.mu.gaps++
	}
	c.mu.wrong += wrong
	c.mu.delivered += uint64(len(b.Data))
	c.mu.position = b.Position + uint64(len(b.Data))
	return c.samples.until(c.mu.position, func(sent time.Duration) { c.mu.times.Add(now - sent) })
}

// compare counts the bytes of a batch that are not those of the durable files.
func (c *consumer) compare(ctx context.Context, b reader.Batch) (wrong uint64, err error) {
	if cap(c.want) < len(b.Data) {
		c.want = make([]byte, len(b.Data))
	}
	want := c.want[:len(b.Data)]
	n, err := c.store.ReadAt(ctx, c.cfg.Shard, b.Position, want)
	if err != nil {
		return 0, fmt.Errorf("durable files at %d, where %d bytes were delivered: %w", b.Position, len(b.Data), err)
	}
	if n == len(want) && bytes.Equal(b.Data, want) {
		return 0, nil
	}
	for i := range b.Data {
		if i >= n || b.Data[i] != want[i] {
			wrong++
		}
	}
	return wrong, nil
}

func (c *consumer) report(ctx context.Context) {
	t := time.NewTicker(reportEvery)
	defer t.Stop()
	for {
		if c.send(c.snapshot()) != nil {
			return // the parent is gone, or says so itself
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *consumer) snapshot() Snapshot {
	st := c.cluster.Stats()
	s := Snapshot{Lag: c.r.Lag(), Transport: st.Transport, Why: st.Why, Reads: st.Reads, DeliveredBy: st.DeliveredBy,
		Retries: st.Retries, Requests: st.Requests, Bytes: st.Bytes}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Position, s.Delivered, s.Wrong, s.Gaps, s.Times = c.mu.position, c.mu.delivered, c.mu.wrong, c.mu.gaps, c.mu.times
	return s
}

func (c *consumer) send(s Snapshot) error {
	b, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	_, err = c.cfg.Out.Write(append(b, '\n'))
	return err
}
