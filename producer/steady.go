package producer

import "time"

// A write that is a system call, such as the flush of a file, keeps its processor
// (of GOMAXPROCS) until the runtime's monitor takes that away. The monitor looks
// every 20 us while it finds something to take, and only every 10 ms once it has
// not for a while; then it takes a processor only from who has not gone through the
// scheduler in between. So when all seats give way to others after each write,
// with as many processors as there are writes under way nothing is ever taken: the
// other seats are ready to run and do not, and half of the sink is idle. (Measured
// with 2 processors and 4 shards, see bench/results.)
//
// Therefore one seat is steady: while whole batches wait it goes from one write to
// the next, and the monitor finds it. It is the first that has taken a batch since
// the last steady one found none. Whoever it wakes has to wait for its processor,
// so it wakes nobody if it can help it: blocked producers are let in by others, as
// long as the queue is not nearly empty, and the Acks of its batches resolve with
// the next batch of another seat.

const (
	// heldMost is how many batches of the steady seat wait for another seat to
	// resolve their Acks, lateAck how long about: longer than the monitor's pause,
	// and than a write that takes unusually long.
	heldMost = 32
	lateAck  = 30 * time.Millisecond
)

// hold says whether the Acks of what a seat has just brought through can be left to
// another. The caller holds mu, as in all below.
func (q *queue) hold(s *seat) bool {
	if q.mu.watch.steady != s || len(q.mu.waiting) <= 1 || len(q.mu.held) > heldMost || len(q.mu.flying) == 0 {
		return false
	}
	if !q.mu.timed {
		q.mu.timed = true
		q.late.Reset(lateAck)
	}
	return true
}

// lately resolves Acks that nobody has resolved in time.
func (q *queue) lately() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.timed = false
	q.acknowledge()
}

// rest ends a seat's steadiness.
func (q *queue) rest(s *seat) {
	if q.mu.watch.steady == s {
		q.mu.watch.steady = nil
	}
	q.acknowledge()
}

// low says whether blocked producers are to be let in: not for each batch, but for
// half a queue at once, so that they are woken seldom.
func (q *queue) low(s *seat) bool {
	part := 2
	if q.mu.watch.steady == s {
		part = 4
	}
	return q.mu.records <= q.limits.QueueRecords/part && q.mu.bytes <= q.limits.QueueBytes/part
}
