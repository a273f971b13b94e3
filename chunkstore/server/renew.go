package server

import (
	"errors"
	"fmt"
)

// RenewHandles registers the node's memory again: the handles that consumers over RDMA
// hold are dead when it returns, and each of them needs a new handshake, which
// readers do by themselves. It revokes what a consumer may have kept. ErrRDMA on
// a node without RDMA, and when a device could not register the arena again,
// which then serves nobody until a call that works.
func (s *Server) RenewHandles() error {
	if m := s.main(); m.export == nil {
		return fmt.Errorf("%w: nothing to renew: %s", ErrRDMA, m.rdmaReason)
	}
	var errs []error
	for _, m := range s.memories.now.Load().of {
		e, ok := m.export.(rdmaExport)
		if !ok {
			continue
		}
		if err := e.Reregister(); err != nil {
			errs = append(errs, fmt.Errorf("%w: handles of the memory of tenant %q: %w", ErrRDMA, m.tenant, err))
			continue
		}
		s.log.Info("memory handles renewed", "tenant", m.tenant, "generation", e.Stats().Generation)
	}
	return errors.Join(errs...)
}
