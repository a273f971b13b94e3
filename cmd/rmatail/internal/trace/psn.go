package trace

// psn is a packet sequence number: 24 bits that wrap.
type psn uint32

const psnMask = 1<<24 - 1

func (p psn) add(n uint32) psn { return (p + psn(n)) & psnMask }

// minus is the distance from q to p, in [-2^23, 2^23).
func (p psn) minus(q psn) int { return int(int32((p-q)<<8) >> 8) }

// windowSize is how many of the last sequence numbers a window remembers. It is
// a power of two.
const windowSize = 4096

// window remembers which of the last sequence numbers of a direction were seen.
// The zero value has seen none.
type window struct {
	next psn // beyond the highest that was seen
	used bool
	bits [windowSize / 64]uint64
}

// mark notes n numbers from p on.
func (w *window) mark(p psn, n uint32) {
	if !w.used {
		w.next, w.used = p, true
	}
	end := p.add(n)
	if ahead := end.minus(w.next); ahead > 0 {
		// The bits of the numbers between are those of older ones.
		if ahead >= windowSize {
			w.bits = [windowSize / 64]uint64{}
		} else {
			for i := range ahead {
				w.set(w.next.add(uint32(i)), false)
			}
		}
		w.next = end
	}
	for i := uint32(1); i <= min(n, windowSize); i++ {
		q := end.add(psnMask + 1 - i)
		if w.next.minus(q) > windowSize {
			break
		}
		w.set(q, true)
	}
}

func (w *window) set(p psn, seen bool) {
	word, bit := &w.bits[p%windowSize/64], uint64(1)<<(p%64)
	if seen {
		*word |= bit
	} else {
		*word &^= bit
	}
}

// seen reports whether p was marked. What is older than the window counts as
// seen: a gap of that age is not filled any more.
func (w *window) seen(p psn) bool {
	behind := w.next.minus(p)
	switch {
	case !w.used || behind <= 0:
		return false
	case behind > windowSize:
		return true
	}
	return w.bits[p%windowSize/64]&(1<<(p%64)) != 0
}
