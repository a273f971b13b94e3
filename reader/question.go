package reader

import (
	"context"
	"errors"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// durableTimeout bounds one question to the durable store.
const durableTimeout = 5 * time.Second

// question is what a Reader has asked the durable store. It is answered however
// soon the ctx of a Next ends: the next Next takes the answer. Else a store that
// is slower than a caller is patient would be asked the same for ever.
type question struct {
	done chan struct{} // closed when the fields below are set

	kind actionKind // doDurable, doFill or doStat
	from uint64     // of doDurable and doFill
	by   *peer      // of doFill: who has filled
	data []byte
	info durable.Info // of doStat, and when the position is out of retention
	err  error        // of either
	// infoErr is why info is not known though it was asked for.
	infoErr error
}

// ask begins a question; r.asked was nil. The goroutine ends with the answer, with
// durableTimeout, or with the Reader, whose Close waits for it.
func (r *Reader) ask(q *question, answer func(context.Context, *question)) {
	q.done = make(chan struct{})
	r.asked = q
	go func() {
		defer close(q.done)
		ctx, cancel := context.WithTimeout(r.ctx, durableTimeout)
		defer cancel()
		answer(ctx, q)
	}()
}

func (r *Reader) askBytes(a action) {
	r.ask(&question{kind: doDurable, from: a.from}, func(ctx context.Context, q *question) {
		q.data, q.err = r.c.gate.read(ctx, r.f.key, a.from, a.to)
		if errors.Is(q.err, wire.ErrOutOfRetention) {
			q.info, q.infoErr = r.c.gate.store.Stat(ctx, r.f.key.name)
		}
	})
}

func (r *Reader) askLength() {
	r.ask(&question{kind: doStat}, func(ctx context.Context, q *question) {
		q.info, q.err = r.c.gate.store.Stat(ctx, r.f.key.name)
		if q.err == nil {
			r.f.info(q.info) // for the others; whether it is ours, this Reader decides
		}
		r.f.asked(time.Now())
	})
}

// answered waits for the answer. It is nil without an error when there is news to
// look at first: the question stays open.
func (r *Reader) answered(ctx context.Context) (*question, error) {
	q := r.asked
	select {
	case <-q.done:
	default:
		select {
		case <-q.done:
		case <-r.news:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.ctx.Done():
			return nil, ErrClosed
		}
	}
	r.asked = nil
	return q, nil
}
