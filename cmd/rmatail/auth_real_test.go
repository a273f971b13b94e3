package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
