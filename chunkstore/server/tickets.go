package server

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/rmatail/rmatail/auth"
)

// tickets open memory sockets. Each is a connection's, that a client who was known
// has got with the answer to its Hello, and lives as long. It opens the memory of
// then, and not the one that takes its place when rights are taken away.
type tickets struct {
	mu struct {
		sync.Mutex
		memory map[[sha256.Size]byte]*memory // by the ticket's digest: lookups tell nothing by their time
	}
}

func (t *tickets) add(ticket string, m *memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.memory == nil {
		t.mu.memory = map[[sha256.Size]byte]*memory{}
	}
	t.mu.memory[sha256.Sum256([]byte(ticket))] = m
}

func (t *tickets) remove(ticket string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.memory, sha256.Sum256([]byte(ticket)))
}

func (t *tickets) opens(ticket []byte, m *memory) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, ok := t.mu.memory[sha256.Sum256(ticket)]
	return ok && of == m
}

// admitLocal decides who gets a memory over its socket: who has a ticket for
// it, or a process of a user that the rules let read it all.
func (s *Server) admitLocal(m *memory, uid uint32, ticket []byte) error {
	if ticket != nil {
		if s.tickets.opens(ticket, m) {
			return nil
		}
		return errNoTicket
	}
	held := s.memories.now.Load()
	if held.of[m.tenant] != m { // it is about to be, by other rules, or has been
		return errNoTicket
	}
	rules := held.rules
	grant, ok := rules.Grant(auth.OfUser(uid))
	if rules == nil || !ok || grant.Tenant != m.tenant || !rules.Covers(grant) {
		return fmt.Errorf("%w: user %d", errNoTicket, uid)
	}
	return nil
}
