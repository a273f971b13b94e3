package server

import (
	"fmt"
	"strings"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/producer"
)

// member returns the node as the cluster's description has it now. ok is false
// if it is not of it any more.
func (s *Server) member() (n cluster.Node, ok bool) {
	view, _ := s.cfg.Cluster.View()
	for _, n := range view.Nodes {
		if n.Name == s.cfg.Node {
			return n, true
		}
	}
	return cluster.Node{}, false
}

// startReplicas makes what the node's own appenders mirror into: the caches of
// the whole cluster, of which the arena is one. A node without a cluster is one
// of its own.
func (s *Server) startReplicas() error {
	if s.cfg.Cluster == nil {
		s.cfg.Node = s.Addr().String()
		s.cfg.Cluster = cluster.Single(s.cfg.Node)
	}
	if _, ok := s.member(); !ok {
		return fmt.Errorf("%w: node %q is not in the cluster's description", ErrConfig, s.cfg.Node)
	}
	if s.store == nil {
		return nil
	}
	replicas, err := producer.NewReplicaCache(producer.ReplicaConfig{
		Source: s.cfg.Cluster, Local: map[string]producer.LocalNode{s.cfg.Node: s.cache}, Store: s.store, Owner: s.cfg.Node,
		TTL: s.cfg.Arena.TTL, Logger: s.log, Registerer: s.cfg.Registerer,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.replicas = replicas
	s.closers.add("replicas", replicas.Close)
	return nil
}

// roles are what the node holds, in words: data, metadata, partial.
func roles(n cluster.Node) string {
	var words []string
	if n.Roles&cluster.Data != 0 {
		words = append(words, "data")
	}
	if n.Roles&cluster.Metadata != 0 {
		words = append(words, "metadata")
	}
	if n.Partial {
		words = append(words, "partial")
	}
	return strings.Join(words, ",")
}
