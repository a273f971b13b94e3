package reader

import "time"

// laggards are the nodes that lacked bytes which a Reader asked them for: restarted
// ones, those that writers do not reach, partial replicas. Such a node is asked
// rarer and rarer while there are others. It is pure: times are the caller's.
type laggards struct {
	all [laggardsKept]laggard
	n   int
}

type laggard struct {
	peer  *peer
	until time.Time
	rest  time.Duration
}

const (
	laggardsKept = 4
	laggardMin   = 50 * time.Millisecond
	laggardMax   = 2 * time.Second
)

// lacked notes that a node lacked bytes. Of too many the one that is left alone the
// least long is forgotten.
func (l *laggards) lacked(p *peer, now time.Time) {
	g := l.find(p)
	if g == nil && l.n < laggardsKept {
		g = &l.all[l.n]
		l.n++
		*g = laggard{peer: p}
	}
	if g == nil {
		g = &l.all[0]
		for i := range l.all {
			if l.all[i].until.Before(g.until) {
				g = &l.all[i]
			}
		}
		*g = laggard{peer: p}
	}
	g.rest = min(max(2*g.rest, laggardMin), laggardMax)
	g.until = now.Add(g.rest)
}

// served notes that a node had what it was asked for.
func (l *laggards) served(p *peer) {
	if g := l.find(p); g != nil {
		l.n--
		*g, l.all[l.n] = l.all[l.n], laggard{}
	}
}

// avoids reports whether a node is to be left alone.
func (l *laggards) avoids(p *peer, now time.Time) bool {
	g := l.find(p)
	return g != nil && now.Before(g.until)
}

func (l *laggards) find(p *peer) *laggard {
	for i := range l.all[:l.n] {
		if l.all[i].peer == p {
			return &l.all[i]
		}
	}
	return nil
}
