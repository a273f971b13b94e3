package file

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// validate checks what values mean together, and fills in what follows from others.
func (d *decoder) validate(c *Cluster) {
	var mistakes cluster.Mistakes
	if errors.As(c.Description.Validate(), &mistakes) {
		for _, m := range mistakes {
			d.failOnce(m.Field, "%s", m.Text)
		}
	}
	owner := slices.IndexFunc(c.Nodes, func(n cluster.Node) bool { return n.Name == c.Store.Node })
	for i := range c.Settings {
		d.settings(fmt.Sprintf("nodes[%d].", i), c.Nodes[i], &c.Settings[i])
		d.dir(fmt.Sprintf("nodes[%d].dir", i), c, i == owner && c.Store.Node != "", &c.Settings[i])
	}
}

// failOnce reports a field, unless it has been, or what contains it.
func (d *decoder) failOnce(field, format string, args ...any) {
	for _, e := range d.errors {
		rest, inside := strings.CutPrefix(field, e.Field)
		if inside && (e.Field == "" || rest == "" || rest[0] == '.' || rest[0] == '[') {
			return
		}
	}
	d.fail(d.place(field), field, format, args...)
}

func (d *decoder) settings(prefix string, n cluster.Node, s *Node) {
	if s.Listen == "" {
		s.Listen = n.Addr
		if strings.HasPrefix(n.Addr, "unix:") {
			d.failOnce(prefix+"listen", "missing; a node listens on TCP, and its addr is a Unix socket: want host:port")
		}
	} else if !isTCP(s.Listen) {
		d.failOnce(prefix+"listen", "%.80q; want host:port, or :port for all addresses of the host", s.Listen)
	}
	if s.HTTP != "" && s.HTTP != "none" && !isTCP(strings.TrimPrefix(s.HTTP, "https://")) {
		d.failOnce(prefix+"http", "%.80q; want host:port, or :port for all addresses of the host, https:// before it for TLS, or none", s.HTTP)
	}
	if _, err := layout.GeometryFor(uint64(s.Arena)); err != nil {
		d.failOnce(prefix+"arena", "%d bytes are too few; 64MiB is a good start", s.Arena)
	}
	if s.Socket != "" && s.Socket != "none" && !filepath.IsAbs(s.Socket) {
		d.failOnce(prefix+"socket", "%.80q; want an absolute path, or none", s.Socket)
	}
}

// dir gives the owner of the durable directory its path, and nobody else.
func (d *decoder) dir(field string, c *Cluster, owner bool, s *Node) {
	switch {
	case s.Dir != "" && !filepath.IsAbs(s.Dir):
		d.failOnce(field, "%.80q; want an absolute path", s.Dir)
	case !owner && s.Dir != "":
		d.failOnce(field, "set, but the durable directory belongs to the node that store.node names (%.80q)", c.Store.Node)
	case owner && s.Dir == "" && c.Store.Dir == "":
		d.failOnce("store.node", "node %.80q has no dir; give it one, or set store.dir", c.Store.Node)
	case owner && s.Dir == "":
		s.Dir = c.Store.Dir
	}
}

func isTCP(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
