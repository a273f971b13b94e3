package cluster

// Source is where the View of a cluster comes from: a file, a coordination
// service. Any number of goroutines may use one.
type Source interface {
	// View returns the current View and a channel that is closed when there is
	// another one. It never blocks and never returns nil.
	View() (*View, <-chan struct{})
}

// Fixed is a Source whose View never changes.
type Fixed struct{ view *View }

// NewFixed returns the Source of a description. Errors match ErrInvalid.
func NewFixed(d Description) (*Fixed, error) {
	v, err := NewView(d)
	if err != nil {
		return nil, err
	}
	return &Fixed{v}, nil
}

// View implements Source.
func (f *Fixed) View() (*View, <-chan struct{}) { return f.view, nil }

// Single is the Source of one node that holds everything, as before there were
// clusters.
func Single(addr string) *Fixed {
	f, err := NewFixed(Description{Nodes: []Node{{Name: addr, Addr: addr, Roles: Data | Metadata, Weight: 1}}, Store: Store{Node: addr}})
	if err != nil {
		panic(err) // the description is right whatever the address is
	}
	return f
}
