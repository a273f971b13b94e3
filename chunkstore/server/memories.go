package server

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma/local"
)

// memory is what one tenant's consumers may read one-sidedly, and every way to it:
// an arena in a memory file of its own, registered with keys of its own in a
// protection domain of its own, and a Unix socket that hands it over. The memory of
// the streams that are no tenant's has the name "".
type memory struct {
	tenant string
	arena  *chunkstore.Arena
	cache  arenaNode

	export     export // nil without RDMA
	rdmaReason string // why there is no RDMA; empty if there is
	socket     *local.Server
	socketPath string
	// socketReason says why there is no shared memory; empty if there is.
	socketReason string
	// before is the memory whose arena this is, without its ways, as no new one could be
	// had; nil: it is its own. See takeUp.
	before *memory

	waits      *waits
	deliverers sync.WaitGroup // goroutines of waits

	// users are the connections that may read it: it is unmapped when they are gone.
	users sync.WaitGroup
}

// holdings are a node's memories and the rules by which they are whose. They are
// replaced, never changed: who writes takes both from the same ones, so that no
// stream's bytes get into memory that was another tenant's a moment before, or is one
// a moment later.
type holdings struct {
	rules   *auth.Rules // nil: there are none
	of      map[string]*memory
	placing uint64 // differs when other streams are the tenants'
	turn    uint64 // differs when anything has changed about who may do what
}

// memories hold the current holdings.
type memories struct {
	now     atomic.Pointer[holdings]
	changed <-chan struct{} // the guard's, at the start
	mu      struct {
		sync.Mutex           // held while now is replaced, and while a user enters
		left       []*memory // replaced, and not closed yet
	}
}

// leave keeps a memory that was replaced for the end of the node.
func (m *memories) leave(x *memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.left = append(m.mu.left, x)
}

// enter returns the memory of a tenant, and counts a user in; nil: there is none.
func (m *memories) enter(tenant string) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.now.Load().of[tenant]
	if x != nil {
		x.users.Add(1)
	}
	return x
}

func (m *memories) replace(h *holdings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Store(h)
}

// main is the memory of the streams that are no tenant's.
func (s *Server) main() *memory { return s.memories.now.Load().of[""] }

// startMemories makes the memory of the streams without a tenant, and one for each
// tenant.
func (s *Server) startMemories() error {
	if view := s.view(); view != nil && s.cfg.Arena.TTL == 0 {
		s.cfg.Arena.TTL = view.TTL
	}
	h := &holdings{of: map[string]*memory{}}
	s.memories.now.Store(h)
	s.closers.add("memories", func() error {
		var errs []error
		for _, m := range s.memories.now.Load().of {
			errs = append(errs, m.shut(), m.arena.Close())
		}
		for _, m := range s.memories.mu.left { // nobody else is left
			errs = append(errs, m.arena.Close())
		}
		return errors.Join(errs...)
	})
	tenants := []auth.Tenant{{}}
	if s.cfg.Guard != nil {
		h.rules, s.memories.changed = s.cfg.Guard.Rules()
		tenants = append(tenants, h.rules.Tenants()...)
	}
	for _, t := range tenants {
		epoch := uint64(0)
		if t.Name == "" {
			epoch = s.cfg.Arena.Epoch
		}
		m, err := s.newMemory(t, epoch)
		if err != nil {
			return err
		}
		// Consumers may knock at its socket already.
		h = &holdings{rules: h.rules, of: maps.Clone(h.of)}
		h.of[t.Name] = m
		s.memories.replace(h)
	}
	return nil
}

// newMemory makes a tenant's memory and opens the ways to it. An epoch of 0 is a random
// one: memory that takes another's place must not have its epoch.
func (s *Server) newMemory(t auth.Tenant, epoch uint64) (*memory, error) {
	cfg := s.cfg.Arena
	cfg.Epoch = epoch
	if t.Arena != 0 {
		cfg.Bytes = uint64(t.Arena)
	}
	m := &memory{tenant: t.Name}
	cfg.Published = m.published
	a, err := chunkstore.New(cfg)
	if err != nil {
		return nil, err
	}
	m.arena, m.cache, m.waits = a, arenaNode{a}, newWaits(a, &s.waiting)
	if err := errors.Join(s.startSocket(m), s.startRDMA(m)); err != nil {
		return nil, errors.Join(err, m.shut(), a.Close())
	}
	return m, nil
}

// published tells who waits for news of a length page: on this host and elsewhere.
func (m *memory) published(page uint32, entry int) {
	if m.socket != nil {
		at, n := m.arena.Geometry().PageSlot(page), layout.PageSize
		if entry >= 0 {
			at, n = at+uint64(entry)*layout.EntrySize, layout.EntrySize
		}
		m.socket.Wake(at, n)
	}
	m.waits.published(page)
}

// deliver starts what answers who waits for news of a memory; false: the node ends.
func (s *Server) deliver(m *memory) bool {
	for range deliverers {
		m.deliverers.Add(1)
		if !s.serving.start(func() {
			defer m.deliverers.Done()
			m.waits.deliver(s.serving.Done())
		}) {
			m.deliverers.Done()
			return false
		}
	}
	return true
}

// shut closes the ways to the memory: no consumer gets in, and queue pairs and keys
// are gone. A process that has mapped it keeps what it shows, and sees nothing more.
func (m *memory) shut() error {
	var errs []error
	if m.socket != nil {
		errs = append(errs, m.socket.Close())
	}
	if m.export != nil {
		errs = append(errs, m.export.Close())
	}
	return errors.Join(errs...)
}

// tenantSocket is where a tenant's memory is handed over, beside that of the others.
func tenantSocket(path, tenant string) string {
	if tenant == "" || path == "" {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + tenant + ext
}

// each calls f for every memory of now, the one without a tenant first. None is
// unmapped meanwhile.
func (m *memories) each(f func(*memory)) {
	m.mu.Lock()
	held := m.now.Load()
	for _, x := range held.of {
		x.users.Add(1)
	}
	m.mu.Unlock()
	names := slices.Sorted(maps.Keys(held.of))
	for _, name := range names {
		f(held.of[name])
	}
	for _, x := range held.of {
		x.users.Done()
	}
}

// evict sweeps all memories.
func (s *Server) evict() {
	s.memories.each(func(m *memory) { m.arena.Evict(s.cfg.Arena.Clock()) })
}

// localCache is what the node's own appenders put to: the memory of each stream. It
// implements producer.LocalNode.
type localCache struct{ s *Server }

// errNoMemory refuses who comes in the moment in which its tenant ends.
var errNoMemory = &wire.Error{Status: wire.StatusBusy, Message: "the memory of this client's tenant is being made or removed; try again"}
