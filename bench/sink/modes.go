package sink

import "sync"

// record is what is written: its number and when it was made.
type record struct {
	id   int
	born int64 // ns on the run's clock
}

// path is what stands between the loop and the sink. One goroutine submits.
type path interface {
	// submit offers a record, and says whether it was taken.
	submit(record) bool
	// drain returns when all that was taken is written, or the run has failed.
	drain()
}

// direct gives every record a goroutine.
type direct struct {
	r       *run
	slots   chan struct{} // nil: no limit
	writers sync.WaitGroup
}

func newDirect(r *run) *direct { return &direct{r: r} }

func newSemaphore(r *run) *direct { return &direct{r: r, slots: make(chan struct{}, connections)} }

func (d *direct) submit(rec record) bool {
	if d.slots != nil {
		d.slots <- struct{}{}
	}
	d.writers.Go(func() {
		d.r.write([]record{rec}, d.r.payload)
		if d.slots != nil {
			<-d.slots
		}
	})
	return true
}

func (d *direct) drain() { d.writers.Wait() }

// queue has a channel and as many writers as there are connections.
type queue struct {
	r       *run
	records chan record
	full    func(*queue, record) bool // what becomes of a record without room
	writers sync.WaitGroup
}

func newQueue(r *run, room, batch int, full func(*queue, record) bool) *queue {
	q := &queue{r: r, records: make(chan record, room), full: full}
	for range connections {
		q.writers.Go(func() { q.writer(batch) })
	}
	return q
}

func drop(*queue, record) bool { return false }

func block(q *queue, rec record) bool {
	q.records <- rec
	return true
}

func (q *queue) submit(rec record) bool {
	select {
	case q.records <- rec:
		return true
	default:
		return q.full(q, rec)
	}
}

// writer writes what is there, up to a batch, and does not wait for more.
func (q *queue) writer(most int) {
	batch := make([]record, 0, most)
	var bytes []byte
	for rec := range q.records {
		batch, bytes = append(batch[:0], rec), append(bytes[:0], q.r.payload...)
	fill:
		for len(batch) < most {
			select {
			case rec, ok := <-q.records:
				if !ok {
					break fill
				}
				batch, bytes = append(batch, rec), append(bytes, q.r.payload...)
			default:
				break fill
			}
		}
		q.r.write(batch, bytes)
	}
}

func (q *queue) drain() {
	close(q.records)
	q.writers.Wait()
}

// write writes a batch and notes when each of its records was written. After a
// failure the rest of the run is not written, and ends at once.
func (r *run) write(batch []record, bytes []byte) {
	if r.ctx.Err() != nil {
		return
	}
	if err := r.sink.write(r.ctx, bytes); err != nil {
		r.fail(err)
		return
	}
	r.wrote(batch)
}

func (r *run) wrote(batch []record) {
	now := r.now()
	for _, rec := range batch {
		r.e2e[rec.id] = now - rec.born
	}
}

// fail ends the run; the first error counts.
func (r *run) fail(err error) { r.cancel(err) }
