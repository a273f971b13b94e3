package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
)

// check reports flags that exclude each other, wherever they were set.
func (f storeFlags) check() error {
	if f.Server != "" && f.Cluster != "" {
		return fmt.Errorf("%w: a node (--server, RMATAIL_SERVER) and a cluster (--cluster, RMATAIL_CLUSTER) are set; unset one", errUsage)
	}
	return nil
}

// openCluster follows the cluster file, if one is set, else it returns nil.
func (f storeFlags) openCluster(p *process) (*file.Source, error) {
	if err := errors.Join(f.check(), p.know(f.Cluster)); err != nil || f.Cluster == "" {
		return nil, err
	}
	return file.Open(f.Cluster, file.Options{Logger: p.quiet})
}

// storeOf is where a cluster's durable store is: a directory that this host has, or
// else the address of the node that owns it.
func storeOf(f *file.Cluster) (dir, addr string) {
	owner, _, owned := f.Node(f.Store.Node)
	if f.Store.Dir != "" {
		if _, err := os.Stat(f.Store.Dir); err == nil || !owned {
			return f.Store.Dir, ""
		}
	}
	return "", owner.Addr
}

// ownerOf is the address, now, of the node that owns a cluster's store; empty if none
// does.
func ownerOf(source cluster.Source) string {
	v, _ := source.View()
	if i, ok := v.Node(v.Store.Node); ok {
		return v.Nodes[i].Addr
	}
	return ""
}

// cluster follows the cluster file, if the node is of one, and takes from it what it
// says of the node.
func (c *serveCmd) cluster(p *process) (*file.Source, error) {
	if c.Cluster == "" && c.Node == "" {
		return nil, nil
	}
	if c.Cluster == "" || c.Node == "" {
		return nil, fmt.Errorf("%w: --cluster FILE (RMATAIL_CLUSTER) and --node NAME (RMATAIL_NODE) go together", errUsage)
	}
	var twice []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"listen", c.Listen != ""}, {"dir", c.Dir != ""}, {"http", c.HTTP != ""}, {"arena", c.Arena != 0}, {"ttl", c.TTL != 0},
		{"socket", c.Socket != ""}, {"rdma", c.RDMA != 0}, {"device", c.Device != ""},
	} {
		if f.set {
			twice = append(twice, "--"+f.name)
		}
	}
	if twice != nil {
		return nil, fmt.Errorf("%w: %s, which a node of a cluster takes from the file: write it there", errUsage, strings.Join(twice, ", "))
	}
	source, err := file.Open(c.Cluster, file.Options{Logger: p.log})
	if err != nil {
		return nil, err
	}
	if err := c.take(source.Current()); err != nil {
		source.Close()
		return nil, err
	}
	return source, nil
}

// take sets what the file says of the node.
func (c *serveCmd) take(f *file.Cluster) error {
	_, s, ok := f.Node(c.Node)
	if !ok {
		var names []string
		for _, n := range f.Nodes {
			names = append(names, n.Name)
		}
		slices.Sort(names)
		return fmt.Errorf("%w: no node %q in %s; there are %s", errUsage, c.Node, c.Cluster, strings.Join(names, ", "))
	}
	c.Listen, c.Dir, c.HTTP, c.Socket, c.Device = s.Listen, s.Dir, s.HTTP, s.Socket, s.Device
	c.Arena, c.TTL = size(s.Arena), f.TTL
	return c.RDMA.UnmarshalText([]byte(s.RDMA))
}

// hangup reads the cluster file and those of authentication at SIGHUP, and says so
// when the node is no longer in the cluster file.
type hangup struct {
	signals chan os.Signal
	stop    chan struct{}
	done    chan struct{}
}

func newHangup(log *slog.Logger, source *file.Source, node string, guard *auth.Guard) *hangup {
	h := &hangup{signals: make(chan os.Signal, 1), stop: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(h.signals, syscall.SIGHUP)
	go h.run(log, source, node, guard)
	return h
}

func (h *hangup) run(log *slog.Logger, source *file.Source, node string, guard *auth.Guard) {
	defer close(h.done)
	var changed <-chan struct{}
	if source != nil {
		_, changed = source.View()
	}
	for {
		select {
		case <-h.stop:
			return
		case <-h.signals:
			reload(log, source, guard)
		case <-changed:
			var v *cluster.View
			if v, changed = source.View(); !has(v, node) {
				log.Warn("this node is no longer in the cluster file: nobody writes to it, and it can be stopped", "node", node)
			}
		}
	}
}

// reload reads what there is to read; both may be nil.
func reload(log *slog.Logger, source *file.Source, guard *auth.Guard) {
	if source != nil {
		if err := source.Reload(); err != nil {
			log.Error("cluster file is not taken, all stays as it was", "err", err)
		} else {
			log.Info("cluster file is read")
		}
	}
	if guard != nil {
		if err := guard.Reload(); err != nil {
			log.Error("authentication files are not taken, what was there before stays in force", "err", err)
		} else {
			log.Info("authentication files are read")
		}
	}
}

func has(v *cluster.View, node string) bool {
	_, ok := v.Node(node)
	return ok
}

func (h *hangup) close() {
	signal.Stop(h.signals)
	close(h.stop)
	<-h.done
}
