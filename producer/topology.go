package producer

import (
	"maps"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// watch follows the cluster's description. changed is closed when there is
// another View than the one that was installed last.
func (c *ReplicaCache) watch(changed <-chan struct{}) {
	defer c.ended.Done()
	for changed != nil {
		select {
		case <-changed:
		case <-c.life.Done():
			return
		}
		var view *cluster.View
		view, changed = c.cfg.Source.View()
		c.install(view)
	}
}

// install makes a View the one by which the next rounds go. Nodes keep their
// connection and counts as long as they keep their name and address. What a node
// gains by it is missing there until repair has put it.
func (c *ReplicaCache) install(view *cluster.View) {
	old := c.top.Load()
	top := &topology{view: view}
	c.mu.Lock()
	nodes := make(map[string]*node, len(view.Nodes))
	for _, at := range view.Nodes {
		n := c.mu.nodes[at.Name]
		if n == nil {
			n = c.newNode(at)
		} else {
			n.move(at)
		}
		nodes[at.Name] = n
		top.nodes = append(top.nodes, n)
		top.remote = top.remote || n.local == nil
	}
	for name, n := range c.mu.nodes {
		if nodes[name] == nil {
			n.end()
		}
	}
	c.mu.nodes = nodes
	c.mu.Unlock()
	c.top.Store(top)
	if old == nil {
		return
	}
	c.cfg.Logger.Info("another description of the cluster", "nodes", len(view.Nodes))
	for _, n := range top.nodes {
		var g gap
		if at, known := old.view.Node(n.name); known {
			g.had, g.hadAs = old.view, uint16(at)
		}
		c.lackRecent(n, g)
	}
}

// emptied notes that a node has begun anew, with nothing in its arena.
func (c *ReplicaCache) emptied(n *node) {
	c.cfg.Logger.Info("a node has been restarted empty", "node", n.name)
	c.lackRecent(n, gap{})
}

// recents are the shards that were put to within the time to live.
func (c *ReplicaCache) recents() []*recent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.mu.shards))
}

// lackRecent notes all that was put within the time to live as missing on a node.
func (c *ReplicaCache) lackRecent(n *node, g gap) {
	now := time.Now()
	for _, s := range c.recents() {
		if from, to, ok := s.window(now, s.ttl); ok {
			g.s, g.from, g.to = s, from, to
			n.lacks(g)
		}
	}
}
