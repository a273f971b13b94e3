// Package cluster describes the nodes of one site and which of them hold a key.
// A Description is what an operator writes, a View is what programs use, a Source
// is where the current View comes from.
package cluster

import (
	"fmt"
	"strings"
	"time"
)

// Node is one chunkstore process.
type Node struct {
	// Name is unique in the cluster and decides what the node holds. 1 to 64 bytes:
	// letters, digits, '.', '_' and '-', a letter or digit first.
	Name   string
	Addr   string // of the TCP protocol: host:port, or unix:/path; unique
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

// Names are those of the roles, as a cluster file has them.
func (r Roles) Names() (names []string) {
	if r&Data != 0 {
		names = append(names, "data")
	}
	if r&Metadata != 0 {
		names = append(names, "metadata")
	}
	return names
}

func (r Roles) String() string {
	if r == 0 || r&^(Data|Metadata) != 0 {
		return fmt.Sprintf("%#x", uint8(r))
	}
	return strings.Join(r.Names(), " and ")
}

// Defaults of a Description.
const (
	DefaultTTL        = 60 * time.Second
	DefaultHedgeDelay = 30 * time.Millisecond
)

// Description is a cluster as it is written down. The zero value of each number
// means its default.
type Description struct {
	Name  string // as a node's name, or empty
	Nodes []Node
	// Replicas of an extent: full ones (3, or as many as there are full data nodes),
	// partial ones (all that there are, up to 2), and how many full ones make a put
	// a success (the majority).
	Full, Partial, Quorum int
	// MetadataReplicas of a length page (3, or as many as there are metadata nodes)
	// and how many of them make a publication a success (the majority, and never
	// less, since leases need it).
	MetadataReplicas, MetadataQuorum int
	Store                            Store
	// TTL is how long bytes stay in memory after they were written, when room gets
	// short; what is older is not repaired. 1 s to 366 days. 0: DefaultTTL.
	TTL time.Duration
	// HedgeDelay is when a read asks a second replica too. 1 ms to 10 s. 0:
	// DefaultHedgeDelay.
	HedgeDelay time.Duration
}

// Store says where the durable bytes are. Without both a lost cache stops the
// readers, unless they are told otherwise where to read.
type Store struct {
	// Node is the name of the node that owns the durable directory: it takes appends
	// and serves durable reads.
	Node string
	// Dir is a directory that every host can open (a mount).
	Dir string
}

func (d Description) withDefaults() Description {
	c := d.count()
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&d.Full, min(3, c.full))
	set(&d.Partial, min(2, c.partial))
	set(&d.Quorum, d.Full/2+1)
	set(&d.MetadataReplicas, min(3, c.metadata))
	set(&d.MetadataQuorum, d.MetadataReplicas/2+1)
	if d.TTL == 0 {
		d.TTL = DefaultTTL
	}
	if d.HedgeDelay == 0 {
		d.HedgeDelay = DefaultHedgeDelay
	}
	return d
}

// counts are the numbers of nodes by what they hold.
type counts struct{ full, partial, metadata int }

func (d Description) count() (c counts) {
	for _, n := range d.Nodes {
		if n.Roles&Data != 0 && n.Partial {
			c.partial++
		}
		if n.Roles&Data != 0 && !n.Partial {
			c.full++
		}
		if n.Roles&Metadata != 0 {
			c.metadata++
		}
	}
	return c
}
