package file

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

const example = "../../../deploy/cluster.example.yaml"

// TestTheExampleHasEveryKey parses the example, and looks in it for every key that
// a file may have.
func TestTheExampleHasEveryKey(t *testing.T) {
	c, err := Load(example)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.NewView(c.Description); err != nil {
		t.Fatal(err)
	}
	want := cluster.Description{
		Name: "site1", Full: 3, Partial: 1, Quorum: 2, MetadataReplicas: 3, MetadataQuorum: 2,
		Store: cluster.Store{Node: "cache1", Dir: "/mnt/rmatail"}, TTL: time.Minute, HedgeDelay: 30 * time.Millisecond,
		Nodes: []cluster.Node{
			{Name: "cache1", Addr: "10.0.0.1:7440", Roles: cluster.Data | cluster.Metadata, Weight: 1},
			{Name: "cache2", Addr: "10.0.0.2:7440", Roles: cluster.Data | cluster.Metadata, Weight: 1},
			{Name: "cache3", Addr: "10.0.0.3:7440", Roles: cluster.Data | cluster.Metadata, Weight: 1},
			{Name: "cache4", Addr: "10.0.0.4:7440", Roles: cluster.Data, Weight: 1},
			{Name: "edge1", Addr: "10.0.0.9:7440", Roles: cluster.Data, Weight: 1, Partial: true},
		},
	}
	if !reflect.DeepEqual(c.Description, want) {
		t.Errorf("the example says\n%+v, want\n%+v", c.Description, want)
	}
	settings := []Node{
		{Listen: ":7440", Arena: 4 << 30, HTTP: "127.0.0.1:7472", Socket: "none", Dir: "/var/lib/rmatail", RDMA: "auto", Device: "mlx5_0"},
		{Listen: "10.0.0.2:7440", Arena: 4 << 30, RDMA: "auto"}, {Listen: "10.0.0.3:7440", Arena: 4 << 30, RDMA: "auto"},
		{Listen: "10.0.0.4:7440", Arena: 4 << 30, RDMA: "auto"}, {Listen: "10.0.0.9:7440", Arena: 256 << 20, RDMA: "auto"},
	}
	if !slices.Equal(c.Settings, settings) {
		t.Errorf("the example's settings\n%+v, want\n%+v", c.Settings, settings)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range knownKeys(t) {
		for _, k := range list {
			if !strings.Contains(string(text), k+": ") && !strings.Contains(string(text), k+":\n") {
				t.Errorf("the example has no %s", k)
			}
		}
	}
}

// knownKeys asks the parser for its keys, by a wrong one in each mapping.
func knownKeys(t *testing.T) (lists [][]string) {
	_, err := Parse("f", []byte("wrong: 1\nnodes: [{wrong: 1}]\nreplicas: {wrong: 1}\nstore: {wrong: 1}\n"))
	var all Errors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	for _, e := range all {
		if _, list, ok := strings.Cut(e.Text, "there are "); ok {
			lists = append(lists, strings.Split(list, ", "))
		}
	}
	if len(lists) != 4 {
		t.Fatalf("%d mappings have keys, want 4: %v", len(lists), err)
	}
	return lists
}

const good = `nodes:
  - {name: a, addr: "a:1", dir: /data}
  - {name: b, addr: "b:1"}
store: {node: a}
`

func TestDefaultsOfAFile(t *testing.T) {
	c, err := Parse("f", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	n, s, ok := c.Node("b")
	if want := (Node{Listen: "b:1", Arena: DefaultArena, RDMA: "auto"}); !ok || s != want {
		t.Errorf("settings %+v, %v; want %+v", s, ok, want)
	}
	if want := (cluster.Node{Name: "b", Addr: "b:1", Roles: cluster.Data | cluster.Metadata, Weight: 1}); n != want {
		t.Errorf("node %+v, want %+v", n, want)
	}
	if _, _, ok := c.Node("c"); ok {
		t.Error("there is a node c")
	}
	c, err = Parse("f", []byte("nodes: [{name: 07, addr: 'a:1', rdma: off, roles: data, weight: 3},{name: b, addr: 'b:1', roles: [metadata]}]\nstore: {node: b, dir: /mnt}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Nodes[0].Name != "07" || c.Settings[0].RDMA != "off" || c.Nodes[0].Roles != cluster.Data || c.Nodes[1].Roles != cluster.Metadata || c.Nodes[0].Weight != 3 {
		t.Errorf("%+v, %+v", c.Nodes, c.Settings)
	}
	if c.Settings[1].Dir != "/mnt" || c.Settings[0].Dir != "" {
		t.Errorf("the owner's directory is %q, want that of the store", c.Settings[1].Dir)
	}
}

// TestMistakesOfAFile: each names its place, its key, and what to write instead.
func TestMistakesOfAFile(t *testing.T) {
	// with replaces a part of good, or appends.
	with := func(old, new string) string {
		if old == "" {
			return good + new
		}
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, c := range []struct {
		file string
		want []string // each a line of the error, or how it begins
	}{
		{"", []string{"f:1:1: empty; want at least nodes and store"}},
		{"# nothing\n", []string{"f:1:1: empty"}},
		{"a: [1", []string{"f:1:4: no YAML: sequence end token"}},
		{"a: b: c\n", []string{"f:1:4: no YAML: mapping value is not allowed"}},
		{"a: \"x", []string{"f:1:4: no YAML: could not find end character of double-quoted text"}},
		{"text\n", []string{`f:1:1: "text"; want keys with values: name, nodes, replicas`}},
		{good + "---\n" + good, []string{"f:6:6: a second YAML document; want one in a file"}},
		{"{}\n", []string{"f:1:1: nodes: missing", "f:1:1: store: missing"}},
		{with("", "node: 1\n"), []string{"f:5:1: node: no such key, perhaps nodes; there are name, nodes, replicas, store, ttl, hedge, chunk_bytes, extent_chunks, auth"}},
		{with("", "Chunk-Bytes: 1\n"), []string{"f:5:1: Chunk-Bytes: no such key, perhaps chunk_bytes; there are"}},
		{with("", "zzz: 1\n"), []string{"f:5:1: zzz: no such key; there are"}},
		{with("", "ttl: 1s\nttl: 2s\n"), []string{"f:6:1: ttl: a second time; the first one is in line 5"}},
		{with("", "ttl:\n"), []string{"f:5:1: ttl: no value; write one, or remove the key for its default"}},
		{with("", "name: ''\n"), []string{"f:5:7: name: empty; write a value, or remove"}},
		{with("", "name: a b\n"), []string{`f:5:7: name: "a b"; want 1 to 64 letters`}},
		{with("", "name: |\n  x\n"), []string{"f:5:7: name: a text of several lines; want one value"}},
		{with("", "name: [x]\n"), []string{"f:5:7: name: a list; want one value"}},
		{with("", "name: &x y\n"), []string{"f:5:7: name: an anchor, alias or tag of YAML: write the value itself; want one value"}},
		{with("", "name: !!str y\n"), []string{"f:5:7: name: an anchor, alias or tag of YAML"}},
		{with("", "<<: {ttl: 1s}\n"), []string{"f:5:1: <<: no such key; there are"}},
		{with("", "ttl: 60\n"), []string{`f:5:6: ttl: "60"; want a time with its unit, such as 60s`}},
		{with("", "ttl: 0s\n"), []string{`f:5:6: ttl: "0s"; want a time with its unit`}},
		{with("", "ttl: 5ms\n"), []string{"f:5:6: ttl: 5ms; want 1s to"}},
		{with("", "hedge: 20s\n"), []string{"f:5:8: hedge: 20s; want 1ms to 10s, such as 30ms"}},
		{with("", "hedge: {}\n"), []string{"f:5:8: hedge: keys with values; want one value"}},
		{with("", "chunk_bytes: 8192\n"), []string{`f:5:14: chunk_bytes: "8192"; this build has 4096 bytes of a chunk, fixed when it is compiled (chunkstore/layout): want 4096, or no such key`}},
		{with("", "extent_chunks: 32\n"), []string{`f:5:16: extent_chunks: "32"; this build has 16 chunks of an extent, fixed`}},
		{with("", "auth: hmac\n"), []string{`f:5:7: auth: "hmac"; want none, or keys with values: tls, token, tokens, access, plain_token`}},
		{with("", "auth: {token: /t}\n"), []string{"f:5:8: auth: token, the file that a process shows, and tokens"}},
		{with("", "auth: {access: /a}\n"), []string{"f:5:16: auth.access: rules, and nothing to know anybody by"}},
		{with("", "auth: {token: t, tokens: /t}\n"), []string{`f:5:15: auth.token: "t"; want an absolute path`}},
		{with("", "auth: {tls: {ca: ca.pem, cert: /c}}\n"), []string{"f:5:14: auth.tls.key: missing", `f:5:18: auth.tls.ca: "ca.pem"; want an absolute path`}},
		{with("", "auth: {tls: {ca: /a, cert: /c, key: /k}, plain_token: true}\n"), []string{"f:5:55: auth.plain_token: true, and there is TLS"}},
		{with("", "auth: {tls: {ca: /a, cert: /c, key: /k, keys: /x}}\n"), []string{"f:5:41: auth.tls.keys: no such key, perhaps key"}},
		{with("", "replicas: 3\n"), []string{`f:5:11: replicas: "3"; want keys with values: full, partial, quorum, metadata, metadata_quorum`}},
		{with("", "replicas: {full: 0}\n"), []string{`f:5:18: replicas.full: "0"; want a whole number of 1 to 2147483647`}},
		{with("", "replicas: {full: -1}\n"), []string{`f:5:18: replicas.full: "-1"; want a whole number`}},
		{with("", "replicas: {full: 0x2}\n"), []string{`f:5:18: replicas.full: "0x2"; want a whole number`}},
		{with("", "replicas: {full: 3}\n"), []string{"f:5:18: replicas.full: 3; want 1 to 2: there are 2 full data nodes"}},
		{with("", "replicas:\n  full: 2\n  quorum: 3\n  metadata_quorum: 1\n"), []string{"f:7:11: replicas.quorum: 3; want 1 to 2, the full replicas", "f:8:20: replicas.metadata_quorum: 1; want 2 to 2"}},
		{with("store: {node: a}", "store: {}"), []string{"f:2:33: nodes[0].dir: set, but the durable directory belongs to the node that store.node names", "f:4:8: store: neither node, the name"}},
		{with("{node: a}", "{node: z}"), []string{"f:2:33: nodes[0].dir: set, but", `f:4:15: store.node: no node is called "z"`}},
		{with("{node: a}", "{node: b}"), []string{"f:2:33: nodes[0].dir: set, but", `f:4:15: store.node: node "b" has no dir; give it one, or set store.dir`}},
		{with("{node: a}", "{node: a, dir: mnt}"), []string{`f:4:23: store.dir: "mnt"; want an absolute path, the same on every host`}},
		{with("dir: /data", "dir: data"), []string{`f:2:33: nodes[0].dir: "data"; want an absolute path`}},
		{"\n\nname: x\nnodes: [{name: a, addr: 'a:1'}]\n", []string{"f:3:1: store: missing"}},
		{"nodes: {a: 1}\nstore: {dir: /d}\n", []string{"f:1:8: nodes: keys with values; want a list"}},
		{"nodes: []\nstore: {dir: /d}\n", []string{"f:1:8: nodes: no node with the role data"}},
		{"nodes: [x]\nstore: {dir: /d}\n", []string{`f:1:9: nodes[0]: "x"; want keys with values: name, addr, roles`}},
		{"nodes:\n  - {}\n  - weight: 1\nstore: {dir: /d}\n", []string{"f:2:5: nodes[0].name: missing", "f:2:5: nodes[0].addr: missing", "f:3:5: nodes[1].name: missing", "f:3:5: nodes[1].addr: missing"}},
		{with("name: b", "name: a"), []string{`f:3:12: nodes[1].name: "a" is the name of nodes[0] already; names are unique`}},
		{with(`"b:1"`, `"a:1"`), []string{`f:3:21: nodes[1].addr: "a:1" is the address of node "a" already`}},
		{with(`"b:1"`, `b`), []string{`f:3:21: nodes[1].addr: "b"; want host:port`}},
		{with(`"b:1"}`, `"b:1", roles: [data, meta]}`), []string{`f:3:42: nodes[1].roles[1]: "meta"; want data or metadata`}},
		{with(`"b:1"}`, `"b:1", roles: []}`), []string{"f:3:35: nodes[1].roles: 0x0; want data, metadata or both"}},
		{with(`"b:1"}`, `"b:1", weight: 0}`), []string{`f:3:36: nodes[1].weight: "0"; want a whole number`}},
		{with(`"b:1"}`, `"b:1", weight: 1.5}`), []string{`f:3:36: nodes[1].weight: "1.5"; want a whole number`}},
		{with(`"b:1"}`, `"b:1", partial: yes}`), []string{`f:3:37: nodes[1].partial: "yes"; want true or false`}},
		{with(`"b:1"}`, `"b:1", partial: true, roles: metadata}`), []string{"f:3:37: nodes[1].partial: true, on a node without the role data"}},
		{with(`"b:1"}`, `"b:1", arena: big}`), []string{`f:3:35: nodes[1].arena: "big"; want bytes, such as 64MiB`}},
		{with(`"b:1"}`, `"b:1", arena: 64}`), []string{"f:3:35: nodes[1].arena: 64 bytes are too few; 64MiB is a good start"}},
		{with(`"b:1"}`, `"b:1", http: 80}`), []string{`f:3:34: nodes[1].http: "80"; want host:port`}},
		{with(`"b:1"}`, `"b:1", listen: 80}`), []string{`f:3:36: nodes[1].listen: "80"; want host:port`}},
		{with(`"b:1"}`, `"b:1", socket: x}`), []string{`f:3:36: nodes[1].socket: "x"; want an absolute path, or none`}},
		{with(`"b:1"}`, `"b:1", rdma: maybe}`), []string{`f:3:34: nodes[1].rdma: "maybe"; want auto, off or require`}},
		{with(`"b:1"`, `"unix:/s"`), []string{"f:3:6: nodes[1].listen: missing; a node listens on TCP"}},
		{with(`"b:1"}`, `nowhere, weight: x, color: red}`+"\nttl: soon\n"), []string{"f:3:21: nodes[1].addr", "f:3:38: nodes[1].weight", "f:3:41: nodes[1].color", "f:4:6: ttl"}},
	} {
		_, err := Parse("f", []byte(c.file))
		var all Errors
		if !errors.Is(err, cluster.ErrInvalid) || !errors.As(err, &all) {
			t.Errorf("%q: %v, want %q", c.file, err, c.want)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if !slices.EqualFunc(lines, c.want, strings.HasPrefix) {
			t.Errorf("%s\ngives\n  %s\nwant\n  %s", c.file, strings.Join(lines, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("ttl: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":1:6: ttl") {
		t.Errorf("a mistake: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "over 4194304 bytes") {
		t.Errorf("a large file: %v", err)
	}
}

// FuzzParse: no content panics, what is taken makes a View, and what is not has
// mistakes that name the file.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, s := range []string{good, "", "nodes: [", "a: &b c\nd: *b", "? x\n: y", "---\n---\n", "nodes:\n- name: a\n  addr: a:1\nstore:\n  dir: /d\n", "{nodes: [{name: a, addr: 'a:1', arena: 1e9}], store: {dir: /d}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err == nil {
			if _, err := cluster.NewView(c.Description); err != nil || len(c.Settings) != len(c.Nodes) {
				t.Fatalf("taken, but no view: %v, %d settings of %d nodes", err, len(c.Settings), len(c.Nodes))
			}
			return
		}
		var all Errors
		if !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("%T, want Errors", err)
		}
		for _, e := range all {
			if !strings.HasPrefix(e.Error(), "f:") || e.Text == "" {
				t.Fatalf("mistake %+v", e)
			}
		}
	})
}
