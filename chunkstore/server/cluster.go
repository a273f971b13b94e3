package server

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/producer"
)

// view is the cluster's description now; nil: the node is alone, or not started.
func (s *Server) view() *cluster.View {
	if s.cfg.Cluster == nil {
		return nil
	}
	v, _ := s.cfg.Cluster.View()
	return v
}

// member returns the node as the cluster's description has it now. ok is false
// if it is not of it any more.
func (s *Server) member() (n cluster.Node, ok bool) {
	view := s.view()
	i, ok := view.Node(s.cfg.Node)
	if !ok {
		return cluster.Node{}, false
	}
	return view.Nodes[i], true
}

// startAlone makes a node without a cluster one of its own, of which its address is the
// name.
func (s *Server) startAlone() error {
	if s.cfg.Cluster == nil {
		s.cfg.Node = s.Addr().String()
		s.cfg.Cluster = cluster.Single(s.cfg.Node)
	}
	return nil
}

// startReplicas makes what the node's own appenders mirror into: the caches of
// the whole cluster, of which the arena is one.
func (s *Server) startReplicas() error {
	if _, ok := s.member(); !ok {
		return fmt.Errorf("%w: node %q is not in the cluster's description", ErrConfig, s.cfg.Node)
	}
	if s.store == nil {
		return nil
	}
	replicas, err := producer.NewReplicaCache(producer.ReplicaConfig{
		Source: s.cfg.Cluster, Local: map[string]producer.LocalNode{s.cfg.Node: localCache{s}}, Store: s.store, Owner: s.cfg.Node,
		TTL: s.cfg.Arena.TTL, Credentials: s.cfg.Credentials, Logger: s.log, Registerer: s.cfg.Registerer,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.replicas = replicas
	s.closers.add("replicas", replicas.Close)
	return nil
}

// role is what the node holds, in words.
func role(n cluster.Node) string {
	if n.Partial {
		return n.Roles.String() + ", partial"
	}
	return n.Roles.String()
}
