package cluster

import (
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/placement"
)

// ErrInvalid is returned when a Description cannot be a cluster.
var ErrInvalid = errors.New("invalid cluster description")

// NewView checks a description, fills in its defaults and computes its placement.
// Errors match ErrInvalid.
func NewView(d Description) (*View, error) {
	v := &View{Description: d}
	var extents, pages []placement.Node
	full, partial := 0, 0
	for i, n := range d.Nodes {
		if n.Roles&Data != 0 {
			extents = append(extents, placement.Node{Name: n.Name, Weight: n.Weight, Partial: n.Partial})
			v.data = append(v.data, uint16(i))
			if n.Partial {
				partial++
			} else {
				full++
			}
		}
		if n.Roles&Metadata != 0 {
			pages = append(pages, placement.Node{Name: n.Name, Weight: n.Weight})
			v.metadata = append(v.metadata, uint16(i))
		}
	}
	if full == 0 || len(pages) == 0 {
		return nil, fmt.Errorf("%w: %d full data nodes and %d metadata nodes, want at least one of each", ErrInvalid, full, len(pages))
	}
	v.Full = orDefault(d.Full, min(3, full))
	v.Quorum = orDefault(d.Quorum, v.Full/2+1)
	v.Partial = orDefault(d.Partial, min(2, partial))
	v.MetadataReplicas = orDefault(d.MetadataReplicas, min(3, len(pages)))
	v.MetadataQuorum = orDefault(d.MetadataQuorum, v.MetadataReplicas/2+1)
	var err error
	if v.extents, err = placement.New(extents, v.Full, v.Partial); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if v.pages, err = placement.New(pages, v.MetadataReplicas, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return v, nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}
