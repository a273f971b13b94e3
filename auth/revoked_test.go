package auth

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/auth/testca"
)

// One certificate is taken away, and not the name that it is of: the same client with
// a new certificate is let in.
func TestRealRevokedCertificates(t *testing.T) {
	ca := testca.New(t)
	node, stolen, renewed, other := ca.Node("node"), ca.Client("bob"), testca.Pair{}, ca.Client("carol")
	of := func(p testca.Pair) Settings { return Settings{CA: ca.File, Cert: p.Cert, Key: p.Key} }
	print := sha256.Sum256(stolen.Read(t).Raw)
	colons := strings.TrimSuffix(strings.ToUpper(fmt.Sprintf("% x", print)), " ")
	list := ca.Revoke(stolen.Read(t))
	crl, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	keep := testca.Pair{Cert: write(t, "stolen.pem", ""), Key: write(t, "stolen.key", "")}
	keep.Copy(t, stolen)
	renewed = ca.Client("bob")
	for name, text := range map[string]string{
		"fingerprint":          fmt.Sprintf("# bob's laptop\n\n%x bob\n", print),
		"as openssl prints it": strings.ReplaceAll(colons, " ", ":") + "\n",
		"list":                 string(crl),
		"list behind text":     "Certificate Revocation List\n" + string(crl),
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "revoked", "# nothing\n")
			s := of(node)
			s.Revoked = file
			g := openGuard(t, s)
			conn, err := connect(t, g, openClient(t, of(keep)))
			if err != nil {
				t.Fatal(err)
			}
			proof, err := g.Show(conn, "")
			if err != nil {
				t.Fatal(err)
			}
			if id, err := g.Identify(proof); id != "cn:bob" || err != nil {
				t.Fatalf("before: %q, %v", id, err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := g.Reload(); err != nil {
				t.Fatal(err)
			}
			if id, err := g.Identify(proof); id != "" || !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "revoked") {
				t.Errorf("a connection of before: %q, %v", id, err)
			}
			for p, want := range map[testca.Pair]Identity{keep: "", renewed: "cn:bob", other: "cn:carol"} {
				conn, err := connect(t, g, openClient(t, of(p)))
				if err != nil {
					t.Fatal(err)
				}
				if id, err := identify(g, conn, ""); id != want {
					t.Errorf("%s: %q, %v; want %q", p.Cert, id, err, want)
				}
			}
		})
	}
}

// A list that nobody of ours has signed, half a list, and what is no fingerprint change
// nothing.
func TestMistakesOfRevoked(t *testing.T) {
	ca, foreign := testca.New(t), testca.New(t)
	bob := ca.Client("bob").Read(t)
	_, authority, err := authorities(ca.File, read(t, ca.File))
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := read(t, ca.Revoke(bob)), read(t, foreign.Revoke(bob))
	if r, err := parseRevoked("f", own, authority); err != nil || r.serials[string(bob.RawIssuer)][bob.SerialNumber.String()] == false {
		t.Errorf("own list: %v", err)
	}
	if r, err := parseRevoked("f", nil, authority); err != nil || len(r.prints) != 0 {
		t.Errorf("empty file: %v", err)
	}
	for name, b := range map[string][]byte{
		"foreign": theirs, "half": own[:len(own)/2], "half of the second": append(append([]byte{}, own...), own[:len(own)-10]...),
		"certificate": read(t, ca.File), "short": []byte("abcd\n"), "no hex": []byte(strings.Repeat("x", 64)), "half a line": []byte(fmt.Sprintf("%x", sha256.Sum256(bob.Raw))[:63]),
	} {
		if _, err := parseRevoked("f", b, authority); !errors.Is(err, ErrMaterial) || err == nil || !strings.Contains(err.Error(), "f") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []Settings{{Revoked: "r"}, {Revoked: "r", Tokens: "t"}, {Revoked: "r", Cert: "c", Key: "k", Tokens: "t"}} {
		if _, err := OpenGuard(s, Options{}); !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Half a file of authorities is not taken: its first half are authorities too, and the
// clients of the others would be cut off.
func TestRealHalfAnAuthority(t *testing.T) {
	one, two := testca.New(t), testca.New(t)
	whole := append(read(t, one.File), read(t, two.File)...)
	for name, b := range map[string][]byte{
		"half of the second": whole[:len(whole)-40],
		"broken second":      append(append([]byte{}, read(t, one.File)...), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...),
		"nothing":            nil,
	} {
		if _, _, err := authorities("ca", b); !errors.Is(err, ErrMaterial) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, list, err := authorities("ca", whole); err != nil || len(list) != 2 {
		t.Errorf("whole: %d, %v", len(list), err)
	}
}

// A file that somebody writes slowly is not taken while it grows, although each part
// of it is a list of tokens.
func TestRealSlowlyWritten(t *testing.T) {
	const first, second = "alice " + secretA + "\n", "bob " + secretB + "\n"
	path := write(t, "tokens", first+second)
	synctest.Test(t, func(t *testing.T) {
		var taken []string
		w, err := watch([]string{path}, Options{Poll: time.Second}.withDefaults(), func(content [][]byte) error {
			taken = append(taken, string(content[0]))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		put := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(900 * time.Millisecond) // of the bubble's own time
		put(first)                         // the look at 1 s finds the half
		time.Sleep(200 * time.Millisecond)
		put(first + second + "# end\n")
		time.Sleep(2 * time.Second)
		w.close()
		if want := []string{first + second, first + second + "# end\n"}; !slices.Equal(taken, want) {
			t.Errorf("taken were %q, want %q", taken, want)
		}
	})
}

// Every certificate that an authority of the host's has signed is not a client of ours.
func TestSystemAuthoritiesNeedRules(t *testing.T) {
	if _, err := OpenGuard(Settings{CA: SystemCA, Cert: "c", Key: "k"}, Options{}); !errors.Is(err, ErrSettings) {
		t.Errorf("%v", err)
	}
}

// Until when a certificate is one.
func TestRealUntil(t *testing.T) {
	ca := testca.New(t)
	node := ca.Node("node")
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	soon := ca.Until("bob", end)
	g := openGuard(t, Settings{CA: ca.File, Cert: node.Cert, Key: node.Key})
	conn, err := connect(t, g, openClient(t, Settings{CA: ca.File, Cert: soon.Cert, Key: soon.Key}))
	if err != nil {
		t.Fatal(err)
	}
	proof, err := g.Show(conn, "")
	if err != nil || !proof.Until().Equal(end) {
		t.Errorf("until %v, %v; want %v", proof.Until(), err, end)
	}
	if proof, err := g.Show(here{}, secretA); err == nil && !proof.Until().IsZero() {
		t.Errorf("a token ends at %v", proof.Until())
	}
}

// TLS that asks nobody who he is, is warned of; with an authority or tokens it is not.
func TestRealOpenTLSIsWarnedOf(t *testing.T) {
	ca := testca.New(t)
	node := ca.Node("node")
	for s, want := range map[Settings]bool{
		{Cert: node.Cert, Key: node.Key}:                                                    true,
		{Cert: node.Cert, Key: node.Key, CA: ca.File}:                                       false,
		{Cert: node.Cert, Key: node.Key, Tokens: write(t, "tokens", "alice "+secretA+"\n")}: false,
	} {
		var log bytes.Buffer
		g, err := OpenGuard(s, Options{Poll: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		g.Close()
		if got := strings.Contains(log.String(), "whoever reaches the node may do everything"); got != want {
			t.Errorf("%+v: warned of: %v, want %v\n%s", s, got, want, log.String())
		}
	}
}
