package producer

import (
	"slices"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// recentSteps is how finely the time to live is divided: what is repaired is at
// most that part of it too old.
const recentSteps = 64

// recent is which positions of a shard were put when, for as long as the nodes
// keep them. Any goroutine.
type recent struct {
	shard layout.Shard
	name  string
	hash  layout.Hash
	// incarnation is that of the hash; 0: whoever puts has not said.
	incarnation uint64
	ttl         time.Duration
	mu          struct {
		sync.Mutex
		// Positions in [first, end) were put; those below marks[i].end were by marks[i].at.
		first, end uint64
		marks      []mark
		last       time.Time // of the last put
		dead       bool      // the shard was made anew, or not put to for long
		// displaced is the last ballot that a newer one has displaced, and why.
		displaced layout.Ballot
		why       error
	}
}

type mark struct {
	at  time.Time
	end uint64
}

// note takes in that [from, to) is being put.
func (s *recent) note(from, to uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.last.IsZero() {
		s.mu.first = from
	}
	s.mu.end, s.mu.last = max(s.mu.end, to), now
	if n := len(s.mu.marks); n > 0 && now.Sub(s.mu.marks[n-1].at) < s.ttl/recentSteps {
		return
	}
	// All but the newest of the marks that are too old say nothing more.
	old := 0
	for old+1 < len(s.mu.marks) && now.Sub(s.mu.marks[old+1].at) >= s.ttl {
		old++
	}
	s.mu.marks = append(slices.Delete(s.mu.marks, 0, old), mark{now, s.mu.end})
}

// window returns the positions that were put within age, at most the time to live,
// and whether there are any. Some of them may be older by a step.
func (s *recent) window(now time.Time, age time.Duration) (from, to uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.dead || s.mu.last.IsZero() {
		return 0, 0, false
	}
	from = s.mu.first
	for _, m := range s.mu.marks {
		if now.Sub(m.at) < age {
			break
		}
		from = m.end
	}
	// The chunk in which the old ends and the new begins is needed from its start.
	from = min(from, s.mu.end) &^ (layout.ChunkSize - 1)
	return from, s.mu.end, from < s.mu.end
}

// bury ends it if nothing was put for the time to live.
func (s *recent) bury(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.dead = s.mu.dead || now.Sub(s.mu.last) >= s.ttl
	return s.mu.dead
}

// kill ends it: its bytes are those of a shard that is no more.
func (s *recent) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.dead = true
}

// displace notes that a node has refused a ballot for a newer one.
func (s *recent) displace(b layout.Ballot, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Compare(s.mu.displaced) >= 0 {
		s.mu.displaced, s.mu.why = b, why
	}
}

// refusal returns why nothing is to be published under a ballot any more.
func (s *recent) refusal(b layout.Ballot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == (layout.Ballot{}) || b.Compare(s.mu.displaced) > 0 {
		return nil
	}
	return s.mu.why
}
