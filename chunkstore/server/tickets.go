package server

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/rmatail/rmatail/auth"
)

// tickets open memory sockets. Each is a connection's, that a client who was known
// has got with the answer to its Hello, and lives as long.
type tickets struct {
	mu struct {
		sync.Mutex
		tenant map[[sha256.Size]byte]string // by the ticket's digest: lookups tell nothing by their time
	}
}

func (t *tickets) add(ticket, tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.tenant == nil {
		t.mu.tenant = map[[sha256.Size]byte]string{}
	}
	t.mu.tenant[sha256.Sum256([]byte(ticket))] = tenant
}

func (t *tickets) remove(ticket string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.tenant, sha256.Sum256([]byte(ticket)))
}

func (t *tickets) opens(ticket []byte, tenant string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, ok := t.mu.tenant[sha256.Sum256(ticket)]
	return ok && of == tenant
}

// admitLocal decides who gets a tenant's memory over its socket: who has a ticket for
// it, or a process of a user that the rules let read it all.
func (s *Server) admitLocal(tenant string, uid uint32, ticket []byte) error {
	if ticket != nil {
		if s.tickets.opens(ticket, tenant) {
			return nil
		}
		return errNoTicket
	}
	rules := s.memories.now.Load().rules
	grant, ok := rules.Grant(auth.OfUser(uid))
	if rules == nil || !ok || grant.Tenant != tenant || !rules.Covers(grant) {
		return fmt.Errorf("%w: user %d", errNoTicket, uid)
	}
	return nil
}
