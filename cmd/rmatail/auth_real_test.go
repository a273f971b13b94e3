package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rmatail/rmatail/auth/testca"
)

// secret writes a file of secrets.
func secret(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRealClusterWithTLS runs three nodes whose file says that everybody shows a
// certificate or a token: they reach each other, a producer and consumers reach
// them, and others do not.
func TestRealClusterWithTLS(t *testing.T) {
	ca, foreign := testca.New(t), testca.New(t)
	node := ca.Node("node")
	const token = "token-of-the-consumer-1"
	tokens := secret(t, "tokens", "consumer "+token)
	s := startSite(t, 3, 0)
	s.write(t, s.describe(3)+fmt.Sprintf("auth:\n  tls: {ca: %q, cert: %q, key: %q}\n  tokens: %q\n", ca.File, node.Cert, node.Key, tokens))
	for i := range 3 {
		s.start(t, i)
	}
	text := numbered(20_000)
	must(t, strings.NewReader(text), "append", "logs/0", "--cluster", s.file)
	for _, transport := range []string{"tcp", "shm"} {
		if r := must(t, nil, "tail", "logs/0", "--cluster", s.file, "--from", "earliest", "--transport", transport); r.stdout != text || !strings.Contains(r.stderr, "transport="+transport) {
			t.Errorf("%s: tail gives %d bytes of %d\n%s", transport, len(r.stdout), len(text), r.stderr)
		}
	}
	// A host that has a token only.
	file := filepath.Join(s.dir, "consumer.yaml")
	if err := os.WriteFile(file, []byte(s.describe(3)+fmt.Sprintf("auth:\n  tls: {ca: %q, cert: /none/cert, key: /none/key}\n  token: %q\n", ca.File, secret(t, "token", token))), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := must(t, nil, "tail", "logs/0", "--cluster", file, "--from", "earliest"); r.stdout != text {
		t.Errorf("with a token: tail gives %d bytes of %d", len(r.stdout), len(text))
	}
	if r := must(t, nil, "stat", "--cluster", s.file, "--json"); strings.Count(r.stdout, `"up":true`) != 3 {
		t.Errorf("not all three nodes are up:\n%s", r.stdout)
	}
	must(t, nil, "ls", "--cluster", file)
	// Mirrors got what was appended through the node that owns the store: they are
	// clients of each other.
	if r := must(t, nil, "stat", "--server", s.addrs[1], "--tls-ca", ca.File, "--tls-cert", node.Cert, "--tls-key", node.Key); !strings.Contains(r.stdout, "requests.Put ") {
		t.Errorf("node 2 has no puts:\n%s", r.stdout)
	}
	other := foreign.Client("x")
	for name, args := range map[string][]string{
		"nothing":             {},
		"no certificate":      {"--tls-ca", ca.File},
		"foreign certificate": {"--tls-ca", ca.File, "--tls-cert", other.Cert, "--tls-key", other.Key},
		"foreign node":        {"--tls-ca", foreign.File},
		"wrong token":         {"--tls-ca", ca.File, "--token-file", secret(t, "wrong", "some-other-token-0002")},
		"token in the clear":  {"--token-file", secret(t, "clear", token)},
	} {
		r := rmatail(t, nil, append([]string{"ls", "--server", s.addrs[0]}, args...)...)
		if r.code == 0 || strings.Contains(r.stdout, "logs") || strings.Contains(r.stderr, token) {
			t.Errorf("%s: exit code %d, %q\n%s", name, r.code, r.stdout, r.stderr)
		}
	}
	if r := must(t, nil, "ls", "--server", s.addrs[0], "--tls-ca", ca.File, "--token-file", secret(t, "token", token)); !strings.Contains(r.stdout, "logs/0000") {
		t.Errorf("ls with a token: %q", r.stdout)
	}
}

// TestRealClusterWithTenants runs three nodes with rules: what is appended at one is
// mirrored into each tenant's memory at all of them, consumers read their own
// tenant's by every transport, and nobody else's.
func TestRealClusterWithTenants(t *testing.T) {
	ca := testca.New(t)
	node := ca.Node("node")
	token := func(name string) string { return "token-of-consumer-" + name }
	var tokens strings.Builder
	for _, name := range []string{"alice", "bob", "carol", "dave"} {
		fmt.Fprintln(&tokens, name, token(name))
	}
	access := secret(t, "access.yaml", `
tenants:
  - {name: a, streams: "a-*", arena: 4MiB}
  - {name: b, streams: "b-*", arena: 4MiB}
identities:
  - {id: "cn:node", role: admin, append: "*", read: "*"}
  - {id: "cn:owner", role: producer, append: "a-own"}
  - {id: "token:alice", read: "*", tenant: a}
  - {id: "token:bob", read: "b-*", append: "b-*", tenant: b}
  - {id: "token:carol", read: "*"}
  - {id: "token:dave", read: "logs"}
`)
	s := startSite(t, 3, 0)
	s.write(t, s.describe(3)+fmt.Sprintf("auth:\n  tls: {ca: %q, cert: %q, key: %q}\n  tokens: %q\n  access: %q\n", ca.File, node.Cert, node.Key, secret(t, "tokens", tokens.String()), access))
	for i := range 3 {
		s.start(t, i)
	}
	file := map[string]string{}
	for _, name := range []string{"alice", "bob", "carol", "dave"} {
		file[name] = filepath.Join(s.dir, name+".yaml")
		text := s.describe(3) + fmt.Sprintf("auth:\n  tls: {ca: %q, cert: /none/cert, key: /none/key}\n  token: %q\n", ca.File, secret(t, name, token(name)))
		if err := os.WriteFile(file[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := map[string]string{}
	for i, stream := range []string{"a-logs", "b-logs", "logs", "other"} {
		text[stream] = strings.ReplaceAll(numbered(5_000+i), "line", stream)
		must(t, strings.NewReader(text[stream]), "append", stream+"/0", "--cluster", s.file)
	}
	for _, c := range []struct{ who, stream, transport, source string }{
		{"alice", "a-logs", "tcp", "tcp"}, {"alice", "a-logs", "shm", "shm"}, {"bob", "b-logs", "shm", "shm"}, {"bob", "b-logs", "tcp", "tcp"}, {"carol", "logs", "shm", "shm"},
		{"dave", "logs", "auto", "durable"}, // may not read all of the memory that they lie in
	} {
		r := rmatail(t, nil, "tail", c.stream+"/0", "--cluster", file[c.who], "--from", "earliest", "--transport", c.transport, "-o", "json")
		if r.code != 0 || strings.Count(r.stdout, "\n") != strings.Count(text[c.stream], "\n") || !strings.Contains(r.stdout, `"source":"`+c.source+`"`) {
			t.Errorf("%s reads %s over %s: exit code %d, %d lines\n%.300s\n%s", c.who, c.stream, c.transport, r.code, strings.Count(r.stdout, "\n"), r.stdout, r.stderr)
		}
	}
	for _, c := range [][2]string{{"alice", "b-logs"}, {"alice", "logs"}, {"bob", "a-logs"}, {"carol", "a-logs"}, {"dave", "other"}} {
		r := rmatail(t, nil, "tail", c[1]+"/0", "--cluster", file[c[0]], "--from", "earliest")
		if r.code != exitError || r.stdout != "" || !strings.Contains(r.stderr, "not allowed") {
			t.Errorf("%s reads %s: exit code %d, %d bytes\n%s", c[0], c[1], r.code, len(r.stdout), r.stderr)
		}
	}
	must(t, strings.NewReader("more\n"), "append", "b-logs/0", "--cluster", file["bob"])
	if r := rmatail(t, strings.NewReader("x\n"), "append", "a-logs/0", "--cluster", file["bob"], "--retry-for", "1s"); r.code == 0 || !strings.Contains(r.stderr, "not allowed") {
		t.Errorf("bob appends to a-logs: exit code %d\n%s", r.code, r.stderr)
	}
	// A producer that owns its files, and may put what is of its stream alone.
	own := ca.Client("owner")
	dir := filepath.Join(s.dir, "own")
	producer := func(stream string) result {
		return rmatail(t, strings.NewReader(text["a-logs"]), "append", stream+"/0", "--cluster", s.file, "--dir", dir, "--tls-cert", own.Cert, "--tls-key", own.Key)
	}
	if r := producer("a-own"); r.code != 0 {
		t.Errorf("a producer with files of its own: exit code %d\n%s", r.code, r.stderr)
	}
	if r := must(t, nil, "stat", "--server", s.addrs[0], "--tls-ca", ca.File, "--tls-cert", node.Cert, "--tls-key", node.Key); !strings.Contains(r.stdout, "requests.Name ") || !strings.Contains(r.stdout, "refusals.not allowed ") {
		t.Errorf("no shard was named:\n%s", r.stdout)
	}
	if r := must(t, nil, "stat", "--cluster", s.file, "--json"); strings.Count(r.stdout, `"up":true`) != 3 {
		t.Errorf("not all three nodes are up:\n%s", r.stdout)
	}
}

// TestRealHangupReadsTokens: a node without a cluster reads its tokens at SIGHUP, at
// once, and goes on.
func TestRealHangupReadsTokens(t *testing.T) {
	tokens := secret(t, "tokens", "one token-of-the-first-client\n")
	n := startNode(t, "--dir", t.TempDir(), "--tokens", tokens)
	first, second := secret(t, "first", "token-of-the-first-client"), secret(t, "second", "token-of-the-second-client")
	must(t, strings.NewReader("x\n"), "append", "logs/0", "--server", n.addr, "--token-file", first)
	if r := rmatail(t, nil, "ls", "--server", n.addr, "--token-file", second); r.code == 0 {
		t.Error("a token that is not in the file")
	}
	if err := os.WriteFile(tokens, []byte("two token-of-the-second-client\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second token counts", func() bool {
		return rmatail(t, nil, "ls", "--server", n.addr, "--token-file", second).code == 0
	})
	if r := rmatail(t, nil, "ls", "--server", n.addr, "--token-file", first); r.code == 0 || !strings.Contains(r.stderr, "does not know this client") {
		t.Errorf("the first token: exit code %d\n%s", r.code, r.stderr)
	}
}
