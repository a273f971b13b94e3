package cluster

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/placement"
)

// View is a Description, its defaults filled in, with its placement. It never
// changes; any number of goroutines may use it.
type View struct {
	Description
	extents, pages *placement.Map
	// data and metadata are the indices into Nodes of those that the two maps are over.
	data, metadata []uint16
	byName         map[string]int
}

// MaxReplicas bounds the replicas of one key, full and partial together.
const MaxReplicas = placement.MaxReplicas

// Replicas are the nodes of one key, as indices into View.Nodes.
type Replicas = placement.Set

// NewView checks a description, fills in its defaults and computes its placement.
// It keeps d.Nodes. Errors match ErrInvalid.
func NewView(d Description) (*View, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return newView(d)
}

func newView(d Description) (*View, error) {
	v := &View{Description: d.withDefaults(), byName: make(map[string]int, len(d.Nodes))}
	var extents, pages []placement.Node
	for i, n := range d.Nodes {
		v.byName[n.Name] = i
		if n.Roles&Data != 0 {
			extents = append(extents, placement.Node{Name: n.Name, Weight: n.Weight, Partial: n.Partial})
			v.data = append(v.data, uint16(i))
		}
		if n.Roles&Metadata != 0 {
			pages = append(pages, placement.Node{Name: n.Name, Weight: n.Weight})
			v.metadata = append(v.metadata, uint16(i))
		}
	}
	var err error
	if v.extents, err = placement.New(extents, v.Full, v.Partial); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if v.pages, err = placement.New(pages, v.MetadataReplicas, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return v, nil
}

// Node returns the index in Nodes of the node of a name, and whether there is one.
func (v *View) Node(name string) (index int, ok bool) {
	index, ok = v.byName[name]
	return index, ok
}

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
