// Package cluster describes the nodes of one site and which of them hold a key.
// A Description is what an operator writes, a View is what programs use, a Source
// is where the current View comes from.
package cluster

import (
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/placement"
)

// Node is one chunkstore process.
type Node struct {
	Name   string // unique in the cluster; decides what the node holds
	Addr   string // of the TCP protocol: host:port, or unix:/path
	Roles  Roles
	Weight uint32 // share of the keys, in proportion to the others' weights; at least 1
	// Partial makes the node's extents partial replicas: it holds what it has room
	// for, and nobody relies on it. Length pages are always full.
	Partial bool
}

// Roles say what a node holds.
type Roles uint8

const (
	// Data nodes hold extents.
	Data Roles = 1 << iota
	// Metadata nodes hold length pages and leases.
	Metadata
)

// Description is a cluster as it is written down. The zero value of each count
// means its default.
type Description struct {
	Name  string
	Nodes []Node
	// Replicas of an extent: full ones (3, or as many as there are full data nodes),
	// partial ones (all that there are, up to 2), and how many full ones make a put
	// a success (the majority).
	Full, Partial, Quorum int
	// MetadataReplicas of a length page (3, or as many as there are metadata nodes)
	// and how many of them make a publication a success (the majority).
	MetadataReplicas, MetadataQuorum int
	Store                            Store
}

// Store says where the durable bytes are. At least one of the two is set, else a
// lost cache stops the readers.
type Store struct {
	// Node owns the durable directory: it takes appends and serves durable reads.
	Node string
	// Dir is a directory that every host can open (a mount).
	Dir string
}

// View is a Description with its placement. It never changes.
type View struct {
	Description
	extents, pages *placement.Map
	// data and metadata are the indices into Nodes of those that the two maps are over.
	data, metadata []uint16
}

// MaxReplicas bounds the replicas of one key, full and partial together.
const MaxReplicas = placement.MaxReplicas

// Replicas are the nodes of one key, as indices into View.Nodes.
type Replicas = placement.Set

// Extent sets r to the replica set of an extent of the shard with hash h. It does
// not allocate.
func (v *View) Extent(h layout.Hash, extent uint64, r *Replicas) {
	v.extents.Of(h, extent, r)
	r.Rename(v.data)
}

// Page sets r to the replica set of a length page of the stream with hash h. It does
// not allocate.
func (v *View) Page(stream layout.Hash, page uint64, r *Replicas) {
	v.pages.Of(stream, page, r)
	r.Rename(v.metadata)
}
