package watch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/survey"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// ErrNoStore is returned in a Frame, as its StoreError, when nobody can say which
// shards there are.
var ErrNoStore = errors.New("no node owns the durable store: shards are not known")

// Options of a Watcher. Zero numbers mean their defaults.
type Options struct {
	// View is the cluster's description now.
	View func() *cluster.View
	// Self is the name of the node that watches, if one does.
	Self string
	// Dial connects to a node.
	Dial func(ctx context.Context, addr string) (*wire.Client, error)
	// List returns shards of the durable store behind a name. nil: the node that owns
	// the store is asked.
	List func(ctx context.Context, after string, limit int) ([]durable.Entry, error)
	// Wanted says which shards count; nil: all.
	Wanted func(shard string) bool
	// Shards bounds how many are looked at. 1,000.
	Shards int
	// Timeout bounds what one node may take. 2 s.
	Timeout time.Duration
	// Clock gives the time. nil: time.Now.
	Clock func() time.Time
}

// Watcher follows a cluster. One goroutine at a time may use it.
type Watcher struct {
	o     Options
	conns conns
	last  time.Time // of the Frame before; zero: none
	nodes map[string]*nodeBefore
	shard map[string]*shardBefore
	told  map[string][]survey.Told   // of shards, by the nodes, now
	heard map[string][]cause.Verdict // of shards, by consumers, now
	known []durable.Entry            // the last answer of the store
	fresh bool                       // it was one of the Frame before
}

// New returns a Watcher, which holds nothing yet.
func New(o Options) *Watcher {
	o.Shards, o.Timeout = cmp.Or(o.Shards, 1000), cmp.Or(o.Timeout, 2*time.Second)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Watcher{o: o, conns: conns{dial: o.Dial}, nodes: map[string]*nodeBefore{}, shard: map[string]*shardBefore{}, told: map[string][]survey.Told{}, heard: map[string][]cause.Verdict{}}
}

// Close closes the connections.
func (w *Watcher) Close() { w.conns.close() }

// Next surveys the cluster, within about twice Options.Timeout, or as long as ctx
// allows. What could not be had is said in the Frame.
func (w *Watcher) Next(ctx context.Context) *Frame {
	began, view := w.o.Clock(), w.o.View()
	addrs := make(map[string]bool, len(view.Nodes))
	for _, n := range view.Nodes {
		addrs[n.Addr] = true
	}
	w.conns.keep(addrs)
	err := w.list(ctx, view)
	r := survey.Of(ctx, view, survey.Options{Dial: w.conns.get, Done: w.conns.put, List: w.listed, Wanted: w.o.Wanted, Shards: w.o.Shards, Timeout: w.o.Timeout})
	now := w.o.Clock()
	f := &Frame{Time: now.UnixMilli(), Took: now.Sub(began).Seconds(), Cluster: r.Name, Self: w.o.Self, More: r.More, Shards: []Shard{}, Consumers: []Consumer{}}
	var window time.Duration
	if !w.last.IsZero() {
		window = now.Sub(w.last)
	}
	f.Window = window.Seconds()
	if err != nil {
		f.StoreError = err.Error()
	}
	w.addNodes(f, r.Nodes, now)
	w.addShards(f, r.Shards, now, window, err == nil)
	f.Totals = f.sum()
	f.fewest()
	w.last = now
	return f
}

// list asks the store which shards there are. If it does not answer, those of the last
// time stand.
func (w *Watcher) list(ctx context.Context, view *cluster.View) error {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	list := w.o.List
	if list == nil {
		i, ok := view.Node(view.Store.Node)
		if !ok {
			return ErrNoStore
		}
		c, err := w.conns.get(ctx, view.Nodes[i].Addr)
		if err != nil {
			return err
		}
		defer func() { w.conns.put(view.Nodes[i].Addr, c, err) }()
		list = durable.NewRemote(c).List
		w.known, err = w.pages(ctx, list)
		return err
	}
	var err error
	w.known, err = w.pages(ctx, list)
	return err
}

// pages collects one shard more than is looked at, so that it is known whether there
// are others.
func (w *Watcher) pages(ctx context.Context, list func(context.Context, string, int) ([]durable.Entry, error)) (all []durable.Entry, err error) {
	for after := ""; ; {
		limit := wire.MaxList
		if w.o.Wanted == nil {
			limit = min(limit, w.o.Shards+1-len(all))
		}
		page, err := list(ctx, after, limit)
		if err != nil {
			return w.known, err
		}
		for _, e := range page {
			if after = e.Shard; w.o.Wanted == nil || w.o.Wanted(e.Shard) {
				all = append(all, e)
			}
			if len(all) > w.o.Shards {
				return all, nil
			}
		}
		if len(page) == 0 {
			return all, nil
		}
	}
}

// listed is what list has found, as survey asks for it.
func (w *Watcher) listed(_ context.Context, after string, limit int) ([]durable.Entry, error) {
	i, found := slices.BinarySearchFunc(w.known, after, func(e durable.Entry, name string) int { return cmp.Compare(e.Shard, name) })
	if found {
		i++
	}
	rest := w.known[i:]
	return rest[:min(limit, len(rest))], nil
}
