package rdma

import (
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// queue is what the engine needs of a queue pair and its completion queue.
//
// post may be called by many goroutines at once; a negative spin posts without
// polling, and then wcs is nil. Polling (post with spin >= 0, poll, armPoll) and
// wait belong to the leader.
type queue interface {
	post(reads []ibverbs.Read, wcs []ibverbs.WC, spin time.Duration) (ibverbs.Counts, error)
	poll(wcs []ibverbs.WC, spin time.Duration) (int, error)
	armPoll(wcs []ibverbs.WC) (int, error)

	// wait sleeps until a completion event was there and has been taken (true),
	// or until the deadline or a wake (false). It returns at once if stop is
	// true after it has made itself reachable by wake.
	wait(deadline time.Time, stop *atomic.Bool) (bool, error)
	// wake makes a wait that is going on return. Set stop before.
	wake()

	// toErr flushes what is outstanding.
	toErr() error
	// destroyQP ends all access to memory; completions can still be polled.
	destroyQP() error
	// close frees the rest, in the order that verbs wants.
	close() error
}
