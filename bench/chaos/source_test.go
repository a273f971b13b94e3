package chaos

import (
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// source is a cluster.Source whose View changes.
type source struct {
	mu      sync.Mutex
	view    *cluster.View
	changed chan struct{}
}

func newSource(t testing.TB, d cluster.Description) *source {
	s := &source{}
	s.set(t, d)
	return s
}

func (s *source) set(t testing.TB, d cluster.Description) {
	v, err := cluster.NewView(d)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
	}
	s.view, s.changed = v, make(chan struct{})
}

// View implements cluster.Source.
func (s *source) View() (*cluster.View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.changed
}

// observer is one of those who look at the cluster, through a network of its own.
type observer struct {
	*source
	addr func(i int) string
}

// observed returns a Source for one more observer.
func (s *site) observed(addr func(i int) string) cluster.Source {
	o := observer{newSource(s.t, s.described(addr)), addr}
	s.observers = append(s.observers, o)
	return o.source
}

// leave takes a node out of the cluster's description; join puts it back.
func (s *site) leave(i int) {
	s.gone[i] = true
	s.describe()
}

func (s *site) join(i int) {
	s.gone[i] = false
	s.describe()
}

// describe tells each observer what the cluster is now, one after the other.
func (s *site) describe() {
	for _, o := range s.observers {
		o.set(s.t, s.described(o.addr))
		<-time.After(20 * time.Millisecond)
	}
}

// TestRealChaosMembership: nodes leave the cluster's description and come back to
// it. What they held moves, readers and writers follow without a restart.
func TestRealChaosMembership(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteConfig{full: 5})
	s.pass(settle)
	for _, i := range s.holders(s.feeds[0])[:2] {
		s.leave(i)
		s.fault("node out of the description")
		s.nodes[i].kill() // nobody needs it any more
		s.pass(1500 * time.Millisecond)
		s.nodes[i].start()
		s.join(i)
		s.pass(time.Second)
	}
	t.Logf("report: membership: the last byte of the store came %v after the last change", s.back(time.Now(), backLimit))
	s.appendsSucceeded()
	s.finish("nodes leave and join")
}
