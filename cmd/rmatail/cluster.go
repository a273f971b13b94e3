package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
)

type clusterCmd struct {
	Check clusterCheckCmd `cmd:"" help:"Check a cluster file, and show what it means."`
}

type clusterCheckCmd struct {
	File   string `arg:"" help:"The cluster file (YAML)."`
	Shards int    `help:"Estimate the balance over so many shards." default:"240" placeholder:"N"`
	JSON   bool   `name:"json" help:"One JSON object."`
}

func (c *clusterCheckCmd) Help() string {
	return `Every mistake is a line FILE:LINE:COLUMN: KEY: what is wrong, and what to write instead. The exit code is then 1.
The share of a node is the part of all recent bytes that it would hold. deploy/cluster.example.yaml has all keys, docs/cluster.md explains them.`
}

// checked is the result of a check in JSON. Its keys are an interface.
type checked struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Errors   []mistake     `json:"errors,omitempty"`
	Name     string        `json:"name,omitempty"`
	Nodes    []checkedNode `json:"nodes,omitempty"`
	Replicas *replicas     `json:"replicas,omitempty"`
	Store    *struct {
		Node string `json:"node,omitempty"`
		Dir  string `json:"dir,omitempty"`
	} `json:"store,omitempty"`
	TTL     float64   `json:"ttl_seconds,omitempty"`
	Hedge   float64   `json:"hedge_seconds,omitempty"`
	Arena   int64     `json:"arena_bytes,omitempty"` // of all nodes
	Balance *balanced `json:"balance,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

type mistake struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

type checkedNode struct {
	Name    string   `json:"name"`
	Addr    string   `json:"addr"`
	Roles   []string `json:"roles"`
	Weight  uint32   `json:"weight"`
	Partial bool     `json:"partial"`
	Arena   int64    `json:"arena_bytes"`
	Store   bool     `json:"store"`
	Share   float64  `json:"share"`
}

type replicas struct {
	Full           int `json:"full"`
	Partial        int `json:"partial"`
	Quorum         int `json:"quorum"`
	Metadata       int `json:"metadata"`
	MetadataQuorum int `json:"metadata_quorum"`
}

func (c *clusterCheckCmd) Run(p *process) error {
	if c.Shards < 1 || c.Shards > 100_000 {
		return fmt.Errorf("%w: --shards %d, want 1 to 100000", errUsage, c.Shards)
	}
	f, err := file.Load(c.File)
	var mistakes file.Errors
	switch {
	case errors.As(err, &mistakes):
		return c.refuse(p, mistakes)
	case err != nil:
		return err
	}
	v, err := cluster.NewView(f.Description)
	if err != nil {
		return err
	}
	sum := c.sum(f, v)
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(sum)
	}
	return sum.write(p.stdout)
}

// refuse reports what is wrong with the file.
func (c *clusterCheckCmd) refuse(p *process, mistakes file.Errors) error {
	if c.JSON {
		sum := checked{File: c.File}
		for _, e := range mistakes {
			sum.Errors = append(sum.Errors, mistake{e.Line, e.Column, e.Field, e.Text})
		}
		if err := json.NewEncoder(p.stdout).Encode(sum); err != nil {
			return err
		}
	}
	fmt.Fprintln(p.stderr, mistakes)
	return fmt.Errorf("%w: %w", errSaid, mistakes)
}

func (c *clusterCheckCmd) sum(f *file.Cluster, v *cluster.View) checked {
	b := balance(v, f.Settings, c.Shards)
	s := checked{File: c.File, OK: true, Name: f.Name, Balance: &b, TTL: v.TTL.Seconds(), Hedge: v.HedgeDelay.Seconds(), Notes: notes(v),
		Replicas: &replicas{v.Full, v.Partial, v.Quorum, v.MetadataReplicas, v.MetadataQuorum}}
	s.Store = &struct {
		Node string `json:"node,omitempty"`
		Dir  string `json:"dir,omitempty"`
	}{v.Store.Node, v.Store.Dir}
	for i, n := range v.Nodes {
		s.Arena += f.Settings[i].Arena
		s.Nodes = append(s.Nodes, checkedNode{n.Name, n.Addr, n.Roles.Names(), n.Weight, n.Partial, f.Settings[i].Arena, n.Name == v.Store.Node, b.shares[i]})
	}
	return s
}

// notes are about what is right, and perhaps not meant.
func notes(v *cluster.View) (notes []string) {
	if v.Full < 3 {
		notes = append(notes, fmt.Sprintf("%d full replicas of an extent: with 3 any two nodes may be lost without a read of the durable store", v.Full))
	}
	if v.MetadataReplicas < 3 {
		notes = append(notes, fmt.Sprintf("%d replicas of a length page: with 3 one may be lost, and a new writer still gets its lease", v.MetadataReplicas))
	}
	hosts := map[string][]string{}
	var order []string
	for _, n := range v.Nodes {
		host, _, err := net.SplitHostPort(n.Addr)
		if err != nil {
			continue
		}
		if hosts[host] == nil {
			order = append(order, host)
		}
		hosts[host] = append(hosts[host], n.Name)
	}
	for _, h := range order {
		if len(hosts[h]) > 1 {
			notes = append(notes, fmt.Sprintf("%s are on one host (%s): placement does not know, and all replicas of a key may be lost with it", strings.Join(hosts[h], ", "), h))
		}
	}
	return notes
}

// write prints the summary for people.
func (s checked) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	count := func(is func(checkedNode) bool) (n int) {
		for _, node := range s.Nodes {
			if is(node) {
				n++
			}
		}
		return n
	}
	has := func(role string) func(checkedNode) bool {
		return func(n checkedNode) bool { return slices.Contains(n.Roles, role) }
	}
	partial := count(func(n checkedNode) bool { return n.Partial })
	fmt.Fprintf(w, "cluster\t%s\n", nameOr(s.Name, "(no name)"))
	fmt.Fprintf(w, "store\t%s\n", s.storeText())
	fmt.Fprintf(w, "extents\t%d full replicas on %d nodes, %d partial on %d; a put needs %d\n",
		s.Replicas.Full, count(has("data"))-partial, s.Replicas.Partial, partial, s.Replicas.Quorum)
	fmt.Fprintf(w, "lengths\t%d replicas on %d nodes; a publication or lease needs %d\n", s.Replicas.Metadata, count(has("metadata")), s.Replicas.MetadataQuorum)
	fmt.Fprintf(w, "times\tbytes live %gs in memory, a read asks a second replica after %gms\n", s.TTL, s.Hedge*1e3)
	fmt.Fprintf(w, "memory\t%s in all; room for %s of appended bytes, then %s evicts: %s a second if they are to live for %gs\n",
		about(float64(s.Arena)), about(float64(s.Balance.Room)), s.Balance.Fullest, about(float64(s.Balance.Room)/s.TTL), s.TTL)
	fmt.Fprintf(w, "balance\tthe busiest full node has %.3f of what its weight is worth (%d shards, %d extents each)\n\n", s.Balance.Busiest, s.Balance.Shards, s.Balance.Extents)
	fmt.Fprintln(w, "NODE\tADDRESS\tROLES\tWEIGHT\tARENA\tSHARE")
	for _, n := range s.Nodes {
		roles := strings.Join(n.Roles, ",")
		if n.Partial {
			roles = strings.Replace(roles, "data", "data (partial)", 1)
		}
		if n.Store {
			roles += ",store"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%.1f %%\n", n.Name, n.Addr, roles, n.Weight, size(n.Arena), 100*n.Share)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range s.Notes {
		if _, err := fmt.Fprintln(out, "\nnote:", n); err != nil {
			return err
		}
	}
	return nil
}

func (s checked) storeText() string {
	var parts []string
	if s.Store.Node != "" {
		parts = append(parts, "owned by node "+s.Store.Node)
	}
	if s.Store.Dir != "" {
		parts = append(parts, "directory "+s.Store.Dir+" on every host")
	}
	return strings.Join(parts, "; ")
}

func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// about prints bytes with three digits or less, in units of 1,024s.
func about(bytes float64) string {
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if bytes < 1000 {
			return fmt.Sprintf("%.3g%s", bytes, u)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.3gTiB", bytes)
}
