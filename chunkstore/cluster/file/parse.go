package file

import (
	"cmp"
	"slices"

	"github.com/goccy/go-yaml/token"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Parse reads a file's content; path is for messages. Errors are Errors and match
// cluster.ErrInvalid.
func Parse(path string, data []byte) (*Cluster, error) {
	d := &decoder{path: path, at: map[string]*token.Position{}}
	c := &Cluster{}
	if root := d.document(data); root != nil {
		d.cluster(value{root, ""}, c)
		d.validate(c)
	}
	if len(d.errors) > 0 {
		slices.SortStableFunc(d.errors, func(a, b *Error) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, d.errors
	}
	return c, nil
}

func (d *decoder) cluster(v value, c *Cluster) {
	d.mapping(v, []key{
		{"name", d.text(&c.Name)},
		{"nodes", func(v value) { d.list(v, func(v value) { d.node(v, c) }) }},
		{"replicas", func(v value) { d.replicas(v, c) }},
		{"store", func(v value) {
			d.mapping(v, []key{{"node", d.text(&c.Store.Node)}, {"dir", d.text(&c.Store.Dir)}})
			if c.Store == (cluster.Store{}) {
				d.fail(d.place(v.field), v.field, "neither node, the name of the node that owns the durable directory, nor dir, a directory that every host can open")
			}
		}},
		{"ttl", d.duration(&c.TTL, "60s")},
		{"hedge", d.duration(&c.HedgeDelay, "30ms")},
		{"chunk_bytes", d.compiledIn(layout.ChunkSize, "bytes of a chunk")},
		{"extent_chunks", d.compiledIn(layout.ChunksPerExtent, "chunks of an extent")},
		{"auth", d.auth(&c.Auth)},
	}, "nodes", "store")
}

func (d *decoder) replicas(v value, c *Cluster) {
	d.mapping(v, []key{
		{"full", number(d, &c.Full)},
		{"partial", number(d, &c.Partial)},
		{"quorum", number(d, &c.Quorum)},
		{"metadata", number(d, &c.MetadataReplicas)},
		{"metadata_quorum", number(d, &c.MetadataQuorum)},
	})
}

func (d *decoder) node(v value, c *Cluster) {
	n := cluster.Node{Roles: cluster.Data | cluster.Metadata, Weight: 1}
	s := Node{Arena: DefaultArena, RDMA: "auto"}
	d.mapping(v, []key{
		{"name", d.text(&n.Name)},
		{"addr", d.text(&n.Addr)},
		{"roles", d.roles(&n.Roles)},
		{"weight", number(d, &n.Weight)},
		{"partial", d.boolean(&n.Partial)},
		{"listen", d.text(&s.Listen)},
		{"arena", d.size(&s.Arena)},
		{"http", d.text(&s.HTTP)},
		{"socket", d.text(&s.Socket)},
		{"dir", d.text(&s.Dir)},
		{"rdma", d.choice(&s.RDMA, "auto", "off", "require")},
		{"device", d.text(&s.Device)},
	}, "name", "addr")
	c.Nodes, c.Settings = append(c.Nodes, n), append(c.Settings, s)
}
