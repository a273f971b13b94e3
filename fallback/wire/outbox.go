package wire

import "net"

// outbox is a list of request frames to write.
type outbox struct {
	gather
	own  []*Call     // own[i] is the call whose tail vec[i] is; nil or past the end: vec[i] is the outbox's own
	out  net.Buffers // the unwritten rest of vec while it is written; shares vec's array
	sent int         // segments of vec that were written whole and let go of
}

// add appends a frame. head is copied, tail borrowed.
func (b *outbox) add(h Header, head, tail []byte, call *Call) {
	b.buf = append(AppendHeader(b.buf, h), head...)
	b.size += HeaderLen + len(head)
	if len(tail) > 0 {
		b.borrow(tail)
		for len(b.own) < len(b.vec)-1 {
			b.own = append(b.own, nil)
		}
		b.own = append(b.own, call)
	}
}

// seal readies the outbox for writing.
func (b *outbox) seal() {
	b.gather.seal()
	b.out = b.vec
}

// written lets go of the tails that were written whole, and returns how many bytes went since the last call; the Client's mu is held.
func (b *outbox) written() int {
	whole := len(b.vec) - len(b.out)
	for ; b.sent < whole; b.sent++ {
		b.letGo(b.sent)
	}
	rest := 0
	for _, p := range b.out {
		rest += len(p)
	}
	n := b.size - rest
	b.size = rest
	return n
}

func (b *outbox) letGo(i int) {
	if i >= len(b.own) || b.own[i] == nil {
		return
	}
	call := b.own[i]
	b.own[i] = nil
	call.tailBusy = false
	call.settle()
}

// copyTail makes segment i, what is left of it, the outbox's own.
func (b *outbox) copyTail(i int) {
	b.vec[i] = append([]byte(nil), b.vec[i]...)
	b.letGo(i)
}

// rescue replaces the call's tail, if it is here, by a copy, so that the call's owner may have it back; the Client's mu is
// held, nobody is writing b.
func (b *outbox) rescue(call *Call) bool {
	for i, owner := range b.own {
		if owner == call {
			b.copyTail(i)
			return true
		}
	}
	return false
}

// rescueAbandoned does the same for every abandoned call.
func (b *outbox) rescueAbandoned() {
	for i, call := range b.own {
		if call != nil && call.abandoned {
			b.copyTail(i)
		}
	}
}

// drop forgets every frame and lets go of every tail; the Client's mu is held.
func (b *outbox) drop() {
	for i := range b.own {
		b.letGo(i)
	}
	clear(b.own)
	b.own, b.out, b.sent = b.own[:0], nil, 0
	b.reset()
}
