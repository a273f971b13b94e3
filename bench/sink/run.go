package sink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// run is the measurement of one row.
type run struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	sink    *pool
	payload []byte // of every record
	start   time.Time
	// Of each record, in ns: until it was written (-1: it was not), until it was taken.
	e2e     []int64
	enqueue []time.Duration
}

func (r *run) now() int64 { return time.Since(r.start).Nanoseconds() }

// measure fills the numbers of a row. dir is where a store is made; each run
// makes and removes its own.
func measure(ctx context.Context, row Row, records, recordBytes int, dir string) (Row, error) {
	all, remove, err := open(row.Wait, dir)
	if err != nil {
		return row, err
	}
	r := newRun(ctx, all, records, recordBytes)
	defer r.cancel(nil)
	runtime.GC()
	debug.FreeOSMemory() // each row begins with the same heap
	peaks := watch()
	row.HeapBefore, row.GoroutinesBefore = peaks.before[0], peaks.before[2]
	r.start = time.Now()
	p, err := r.path(row)
	if err == nil {
		row.Offered = records
		row.Produced = r.produce(p)
		p.drain()
		row.Seconds = time.Since(r.start).Seconds()
		err = context.Cause(r.ctx)
	}
	row.HeapMax, row.StacksMax, row.GoroutinesMax = peaks.end()
	for _, c := range all {
		err = errors.Join(err, c.close())
	}
	err = errors.Join(err, remove())
	if err != nil {
		return row, fmt.Errorf("%s, wait %s: %w", row.Name(), row.Wait, err)
	}
	r.count(&row)
	return row, nil
}

func newRun(ctx context.Context, all []connection, records, recordBytes int) *run {
	r := &run{sink: newPool(all), payload: payload(recordBytes), start: time.Now(), e2e: make([]int64, records), enqueue: make([]time.Duration, records)}
	for i := range r.e2e {
		r.e2e[i] = -1
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// produce offers all records as fast as it can, and returns how many were taken.
func (r *run) produce(p path) (taken int) {
	for i := range r.enqueue {
		if r.ctx.Err() != nil {
			return taken
		}
		rec := record{i, r.now()}
		if p.submit(rec) {
			taken++
		}
		r.enqueue[i] = time.Duration(r.now() - rec.born)
	}
	return taken
}

func (r *run) path(row Row) (path, error) {
	switch row.Mode {
	case Direct:
		return newDirect(r), nil
	case Semaphore:
		return newSemaphore(r), nil
	case Queue:
		return newQueue(r, row.Cap, row.Batch, drop), nil
	case Blocking:
		return newQueue(r, row.Cap, row.Batch, block), nil
	}
	return newAppender(r)
}

func (r *run) count(row *Row) {
	row.Dropped = row.Offered - row.Produced
	written := make([]time.Duration, 0, len(r.e2e))
	for _, ns := range r.e2e {
		if ns >= 0 {
			written = append(written, time.Duration(ns))
		}
	}
	row.Written, row.Writes = len(written), len(r.sink.took.times)
	row.RecordsPerSecond = float64(row.Written) / row.Seconds
	row.E2E, row.Enqueue, row.Sink = quantiles(written), quantiles(r.enqueue), quantiles(r.sink.took.times)
}

// open makes the sink's connections, and says how to remove what they leave.
func open(w Wait, dir string) (all []connection, remove func() error, err error) {
	if w != Store {
		all, err = simulate(w)
		return all, func() error { return nil }, err
	}
	path, err := os.MkdirTemp(dir, "rmatail-bench-")
	if err != nil {
		return nil, nil, err
	}
	if all, err = store(path); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(path))
	}
	return all, func() error { return os.RemoveAll(path) }, nil
}

// payload is a record's bytes: a line, as most records are.
func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	b[n-1] = '\n'
	return b
}
