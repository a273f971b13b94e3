package cluster

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rmatail/rmatail/chunkstore/placement"
)

const (
	maxName  = 64
	maxNodes = 4096
	maxTTL   = 366 * 24 * time.Hour // of an arena
	minTTL   = time.Second
	maxHedge = 10 * time.Second
	minHedge = time.Millisecond
)

// Validate reports everything that is wrong with d. Errors are Mistakes and match
// ErrInvalid.
func (d Description) Validate() error {
	var m Mistakes
	add := func(field, format string, args ...any) {
		m = append(m, Mistake{Field: field, Text: fmt.Sprintf(format, args...)})
	}
	if d.Name != "" && !isName(d.Name) {
		add("name", "%.80q; %s", d.Name, wantName)
	}
	names, addrs := map[string]int{}, map[string]int{}
	for i, n := range d.Nodes {
		n.validate(func(key, format string, args ...any) { add(fmt.Sprintf("nodes[%d].%s", i, key), format, args...) })
		if first, taken := names[n.Name]; taken {
			add(fmt.Sprintf("nodes[%d].name", i), "%.80q is the name of nodes[%d] already; names are unique", n.Name, first)
		} else {
			names[n.Name] = i
		}
		addr := strings.ToLower(n.Addr)
		if first, taken := addrs[addr]; taken && addr != "" {
			add(fmt.Sprintf("nodes[%d].addr", i), "%.80q is the address of node %q already; addresses are unique", n.Addr, d.Nodes[first].Name)
		} else {
			addrs[addr] = i
		}
	}
	if len(d.Nodes) > maxNodes {
		add("nodes", "%d nodes, want at most %d", len(d.Nodes), maxNodes)
	}
	d.validateCounts(add)
	if _, there := names[d.Store.Node]; !there && d.Store.Node != "" {
		add("store.node", "no node is called %.80q", d.Store.Node)
	}
	if d.Store.Dir != "" && !filepath.IsAbs(d.Store.Dir) {
		add("store.dir", "%q; want an absolute path, the same on every host", d.Store.Dir)
	}
	if d.TTL != 0 && (d.TTL < minTTL || d.TTL > maxTTL) {
		add("ttl", "%v; want %v to %v, such as 60s", d.TTL, minTTL, maxTTL)
	}
	if d.HedgeDelay != 0 && (d.HedgeDelay < minHedge || d.HedgeDelay > maxHedge) {
		add("hedge", "%v; want %v to %v, such as 30ms", d.HedgeDelay, minHedge, maxHedge)
	}
	if m != nil {
		return m
	}
	return nil
}

func (n Node) validate(add func(key, format string, args ...any)) {
	if !isName(n.Name) {
		add("name", "%.80q; %s", n.Name, wantName)
	}
	if !isAddress(n.Addr) {
		add("addr", "%.80q; want host:port such as node1:7440, or unix:/path", n.Addr)
	}
	if n.Weight == 0 {
		add("weight", "0; want 1 or more")
	}
	if n.Roles&^(Data|Metadata) != 0 || n.Roles == 0 {
		add("roles", "%v; want data, metadata or both", n.Roles)
	}
	if n.Partial && n.Roles&Data == 0 {
		add("partial", "true, on a node without the role data; length pages are never partial")
	}
}

func (d Description) validateCounts(add func(field, format string, args ...any)) {
	c := d.count()
	if c.full == 0 {
		add("nodes", "no node with the role data that is not partial; want 1 or more, and 3 to survive the loss of any two")
	}
	if c.metadata == 0 {
		add("nodes", "no node with the role metadata; want 1 or more, and 3 to survive the loss of one")
	}
	if c.full == 0 || c.metadata == 0 {
		return // no count is right
	}
	within := func(field string, n, least, most int, of string) bool {
		if n < least || n > most {
			add(field, "%d; want %d to %d%s", n, least, most, of)
			return false
		}
		return true
	}
	w := d.withDefaults()
	fullFits := within("replicas.full", w.Full, 1, min(c.full, placement.MaxReplicas), fmt.Sprintf(": there are %d full data nodes", c.full))
	if fullFits {
		within("replicas.partial", w.Partial, 0, min(c.partial, placement.MaxReplicas-w.Full), fmt.Sprintf(": there are %d partial data nodes, and at most %d replicas in all", c.partial, placement.MaxReplicas))
		within("replicas.quorum", w.Quorum, 1, w.Full, ", the full replicas")
	}
	if within("replicas.metadata", w.MetadataReplicas, 1, min(c.metadata, placement.MaxReplicas), fmt.Sprintf(": there are %d metadata nodes", c.metadata)) {
		within("replicas.metadata_quorum", w.MetadataQuorum, w.MetadataReplicas/2+1, w.MetadataReplicas, ", the majority of the metadata replicas or more, so that two writers cannot both hold a lease")
	}
}

const wantName = "want 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first"

func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

func isAddress(s string) bool {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return filepath.IsAbs(path)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
