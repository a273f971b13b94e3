package server

import "github.com/rmatail/rmatail/chunkstore/layout"

// names remembers the shards that a connection publishes, so that a publication
// makes no string of its shard's name. One goroutine.
type names struct{ of map[string]layout.Shard }

// namesMost bounds them: 1,024 names of at most wire.MaxShard bytes.
const namesMost = 1024

// shard is parseShard of a name that comes again.
func (n *names) shard(name []byte) (layout.Shard, error) {
	if shard, known := n.of[string(name)]; known {
		return shard, nil
	}
	shard, err := parseShard(name)
	if err != nil {
		return layout.Shard{}, err
	}
	if n.of == nil || len(n.of) == namesMost {
		n.of = make(map[string]layout.Shard)
	}
	n.of[string(name)] = shard
	return shard, nil
}
