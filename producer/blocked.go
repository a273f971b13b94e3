package producer

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// blocked is a producer that waits for room. It is granted under the lock, in the
// order of arrival: its record is copied in for it.
type blocked struct {
	off   uint64
	p     []byte
	ack   Ack
	err   error
	ready chan struct{} // capacity 1
}

// await waits for a grant.
func (q *queue) await(ctx context.Context, w *blocked) (Ack, error) {
	select {
	case <-w.ready:
	case <-ctx.Done():
		q.mu.Lock()
		i := slices.Index(q.mu.blocked, w)
		if i >= 0 {
			q.mu.blocked = slices.Delete(q.mu.blocked, i, i+1)
			q.grant(time.Now()) // it may have held up smaller ones
		}
		q.mu.Unlock()
		if i >= 0 {
			return Ack{}, fmt.Errorf("queue of %s is full, nothing was appended: %w", q.name, ctx.Err())
		}
		<-w.ready // granted in the moment of giving up: the record is queued
	}
	k, err := w.ack, w.err
	w.p, w.ack, w.err = nil, Ack{}, nil
	q.spares.Put(w)
	return k, err
}

// grant lets blocked producers in, as far as there is room. The caller holds mu.
func (q *queue) grant(now time.Time) {
	i := 0
	for i < len(q.mu.blocked) && q.fits(len(q.mu.blocked[i].p)) {
		w := q.mu.blocked[i]
		w.ack = q.add(w.off, w.p, now)
		w.ready <- struct{}{}
		i++
	}
	q.mu.blocked = slices.Delete(q.mu.blocked, 0, i)
}
