package server

import "fmt"

// RenewHandles registers the arena again: the handles that consumers over RDMA
// hold are dead when it returns, and each of them needs a new handshake, which
// readers do by themselves. It revokes what a consumer may have kept. ErrRDMA on
// a node without RDMA, and when a device could not register the arena again,
// which then serves nobody until a call that works.
func (s *Server) RenewHandles() error {
	e, ok := s.export.(rdmaExport)
	if !ok {
		return fmt.Errorf("%w: nothing to renew: %s", ErrRDMA, s.rdmaReason)
	}
	if err := e.Reregister(); err != nil {
		return fmt.Errorf("%w: handles of the arena: %w", ErrRDMA, err)
	}
	s.log.Info("memory handles renewed", "generation", e.Stats().Generation)
	return nil
}
