package cluster

// Source is where the View of a cluster comes from: a file, a coordination
// service. Any number of goroutines may use one.
type Source interface {
	// View returns the current View and a channel that is closed when there is
	// another one, or nil if there never is. It never blocks and never returns a
	// nil View.
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
// clusters. The node's name is its address, whatever that is.
func Single(addr string) *Fixed {
	v, err := newView(Description{Nodes: []Node{{Name: addr, Addr: addr, Roles: Data | Metadata, Weight: 1}}, Store: Store{Node: addr}})
	if err != nil {
		panic(err) // one node of weight 1 can be placed
	}
	return &Fixed{v}
}
