package producer

// fifo is a queue in a ring that grows and is kept: in the steady state it does
// not allocate.
type fifo[T any] struct {
	ring    []T // a power of two in length, or empty
	head, n int
}

func (q *fifo[T]) len() int { return q.n }

// push adds at the end.
func (q *fifo[T]) push(v T) {
	q.grow()
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
}

// unshift adds at the front.
func (q *fifo[T]) unshift(v T) {
	q.grow()
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[q.head] = v
	q.n++
}

// front returns the oldest, which must be there.
func (q *fifo[T]) front() *T { return &q.ring[q.head] }

// shift takes the oldest, which must be there.
func (q *fifo[T]) shift() T {
	var zero T
	v := q.ring[q.head]
	q.ring[q.head] = zero
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}

// take takes all, oldest first, and gives the ring up.
func (q *fifo[T]) take() []T {
	all := make([]T, 0, q.n)
	for q.n > 0 {
		all = append(all, q.shift())
	}
	q.ring, q.head = nil, 0
	return all
}

func (q *fifo[T]) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]T, max(16, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}
