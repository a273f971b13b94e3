// Package file reads a cluster from a YAML file, and follows the file.
//
// A file is one mapping. Keys that are not known are errors, and so are anchors,
// aliases and tags: what a file says is what stands there. All mistakes are
// reported at once, each with its line and column. deploy/cluster.example.yaml has
// every key, docs/cluster.md what they mean.
package file

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// DefaultArena is a node's memory for recent bytes where a file says nothing.
const DefaultArena = 64 << 20

// maxFile bounds a file's bytes.
const maxFile = 4 << 20

// Cluster is what a file says.
type Cluster struct {
	cluster.Description
	// Auth is what processes show each other.
	Auth auth.Settings
	// Settings are those that stand at a node and that only its own process needs,
	// one for each of Nodes.
	Settings []Node
}

// Node is what one node's process is told beyond what everybody must know of it.
type Node struct {
	Listen string // TCP address to listen on; the node's addr unless the file says another
	Arena  int64  // bytes of memory for recent bytes; DefaultArena
	HTTP   string // address of the page and the metrics, or "none"; empty: the node's choice
	Socket string // path of the Unix socket for shared memory, or "none"; empty: the node's choice
	Dir    string // durable directory, if the node owns it, else empty
	RDMA   string // auto, off or require
	Device string // RDMA device; empty: every usable one
}

// Node returns a node and its settings by name.
func (c *Cluster) Node(name string) (n cluster.Node, s Node, ok bool) {
	for i, n := range c.Nodes {
		if n.Name == name {
			return n, c.Settings[i], true
		}
	}
	return cluster.Node{}, Node{}, false
}

// Load reads a file. What is wrong in it is Errors and matches cluster.ErrInvalid.
func Load(path string) (*Cluster, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cluster file: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("cluster file: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("cluster file %s: over %d bytes", path, maxFile)
	}
	return data, nil
}
