package logging

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// queue hands lines to a goroutine that writes them. There are two buffers: one
// is filled by callers, the other is being written.
type queue struct {
	out   io.Writer
	limit int // bytes of a buffer
	mu    struct {
		sync.Mutex
		filling []byte
		count   uint64 // lines in filling
		closed  bool
	}
	wake  chan struct{} // capacity 1: filling is no longer empty
	stop  chan struct{} // closed by close
	once  sync.Once
	done  chan struct{} // closed when the goroutine has ended
	lines atomic.Uint64

	dropped atomic.Uint64

	// Of the goroutine alone.
	writing  []byte
	own      bytes.Buffer // its own lines
	reported uint64       // of dropped
	err      error        // the last of the output's, to be read after done
}

func newQueue(out io.Writer, limit int) *queue {
	return &queue{out: out, limit: limit, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Write takes one line, or drops it. It never waits for the output, and never
// fails: slog has nobody to tell.
func (q *queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	if q.mu.closed || len(q.mu.filling)+len(line) > q.limit {
		q.mu.Unlock()
		q.dropped.Add(1)
		return len(line), nil
	}
	first := len(q.mu.filling) == 0
	q.mu.filling = append(q.mu.filling, line...)
	q.mu.count++
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// run writes until close. report is called every so often, and once at the end.
func (q *queue) run(every time.Duration, report func()) {
	defer close(q.done)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-q.wake:
			q.drain()
		case <-t.C:
			q.say(report)
		case <-q.stop:
			q.drain()
			q.say(report)
			return
		}
	}
}

// drain writes what callers have filled.
func (q *queue) drain() {
	q.mu.Lock()
	q.mu.filling, q.writing = q.writing[:0], q.mu.filling
	n := q.mu.count
	q.mu.count = 0
	q.mu.Unlock()
	if len(q.writing) == 0 {
		return
	}
	if _, err := q.out.Write(q.writing); err != nil {
		q.err = err
		q.dropped.Add(n)
		return
	}
	q.err = nil
	q.lines.Add(n)
}

// say writes what report has to say.
func (q *queue) say(report func()) {
	q.own.Reset()
	report()
	if q.own.Len() == 0 {
		return
	}
	if _, err := q.out.Write(q.own.Bytes()); err != nil {
		q.err = err
	}
}

// close ends the goroutine, which writes what is there before.
func (q *queue) close() {
	q.once.Do(func() {
		q.mu.Lock()
		q.mu.closed = true
		q.mu.Unlock()
		close(q.stop)
	})
}
