package auth

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth/testca"
)

const patience = 20 * time.Second

// connect joins a node's and a client's ends by TLS, or without where there is none,
// and returns the node's end after a byte each way.
func connect(t *testing.T, g *Guard, c *Client) (node net.Conn, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	failed := make(chan error, 1)
	go func() {
		nc, err := l.Accept()
		if err == nil {
			nc.SetDeadline(time.Now().Add(patience))
			if cfg := g.TLS(); cfg != nil {
				nc = tls.Server(nc, cfg)
			}
			_, err = io.ReadFull(nc, make([]byte, 1))
		}
		failed <- err
		accepted <- nc
	}()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { ours.Close() })
	cfg, err := c.TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if cfg != nil {
		ours = tls.Client(ours, cfg)
	}
	_, writeErr := ours.Write([]byte{1})
	err = <-failed
	node = <-accepted
	t.Cleanup(func() { node.Close() })
	return node, errors.Join(err, writeErr)
}

func identify(g *Guard, conn net.Conn, token string) (Identity, error) {
	p, err := g.Show(conn, token)
	if err != nil {
		return "", err
	}
	return g.Identify(p)
}

func openGuard(t *testing.T, s Settings) *Guard {
	t.Helper()
	g, err := OpenGuard(s, Options{Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func openClient(t *testing.T, s Settings) *Client {
	t.Helper()
	c, err := OpenClient(s, Options{Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// Who a peer is, by what it shows, and who is turned away.
func TestRealIdentities(t *testing.T) {
	ca, foreign := testca.New(t), testca.New(t)
	node := ca.Node("node")
	tokens := write(t, "tokens", "alice "+secretA+"\n")
	mutual := Settings{CA: ca.File, Cert: node.Cert, Key: node.Key}
	both := mutual
	both.Tokens = tokens
	sealed := Settings{Cert: node.Cert, Key: node.Key}
	client := func(p testca.Pair) Settings { return Settings{CA: ca.File, Cert: p.Cert, Key: p.Key} }
	for name, c := range map[string]struct {
		node   Settings
		client Settings
		token  string
		want   Identity
		err    error // of Identify; errNo: the handshake fails
	}{
		"certificate":                 {mutual, client(ca.Client("bob")), "", "cn:bob", nil},
		"URI before common name":      {mutual, client(ca.URI("u", "spiffe://site/consumer/1")), "", "uri:spiffe://site/consumer/1", nil},
		"name like a URI":             {mutual, client(ca.Client("uri:spiffe://site/consumer/1")), "", "cn:uri:spiffe://site/consumer/1", nil},
		"no certificate":              {mutual, Settings{CA: ca.File}, "", "", errNo},
		"foreign certificate":         {mutual, client(foreign.Client("bob")), "", "", errNo},
		"certificate and token":       {both, client(ca.Client("bob")), secretA, "cn:bob", nil},
		"certificate and wrong token": {both, client(ca.Client("bob")), secretB, "", ErrUnknown},
		"token over TLS":              {both, Settings{CA: ca.File}, secretA, "token:alice", nil},
		"neither":                     {both, Settings{CA: ca.File}, "", "", ErrUnknown},
		"node asks for nothing":       {sealed, Settings{CA: ca.File}, "", Anonymous, nil},
		"token nobody asks for":       {sealed, Settings{CA: ca.File}, secretA, "", ErrUnknown},
		"token over the loopback":     {Settings{Tokens: tokens}, Settings{}, secretA, "token:alice", nil},
		"wrong token":                 {Settings{Tokens: tokens}, Settings{}, secretB, "", ErrUnknown},
		"no token":                    {Settings{Tokens: tokens}, Settings{}, "", "", ErrUnknown},
		"client trusts another":       {mutual, Settings{CA: foreign.File}, "", "", errNo},
		"client wants another name":   {mutual, Settings{CA: ca.File, Cert: node.Cert, Key: node.Key, Name: "elsewhere"}, "", "", errNo},
	} {
		t.Run(name, func(t *testing.T) {
			g := openGuard(t, c.node)
			conn, err := connect(t, g, openClient(t, c.client))
			if err != nil || c.err == errNo {
				if (err == nil) || c.err != errNo {
					t.Fatalf("handshake: %v", err)
				}
				return
			}
			id, err := identify(g, conn, c.token)
			if id != c.want || !errors.Is(err, c.err) {
				t.Errorf("%q, %v; want %q, %v", id, err, c.want, c.err)
			}
			if err != nil && (strings.Contains(err.Error(), secretA) || strings.Contains(err.Error(), secretB)) {
				t.Errorf("the error shows a token: %v", err)
			}
		})
	}
}

var errNo = errors.New("no handshake")

// remote is a connection that says it comes from another host.
type remote struct{ net.Conn }

// here is one from this host.
type here struct{ net.Conn }

func (here) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func TestTokensWithoutTLS(t *testing.T) {
	file, own := write(t, "tokens", "alice "+secretA+"\n"), write(t, "token", secretA)
	for _, plain := range []Plain{PlainLocal, PlainAllowed} {
		g := openGuard(t, Settings{Tokens: file, Plain: plain})
		id, err := identify(g, remote{}, secretA)
		c := openClient(t, Settings{Token: own, Plain: plain})
		token, sendErr := c.Token(remote{})
		if plain == PlainAllowed {
			if id != "token:alice" || err != nil || token != secretA || sendErr != nil {
				t.Errorf("allowed: %q, %v; client sends %q, %v", id, err, token, sendErr)
			}
			continue
		}
		if !errors.Is(err, ErrPlain) || !errors.Is(sendErr, ErrPlain) || token != "" || strings.Contains(sendErr.Error(), secretA) {
			t.Errorf("over the network: %q, %v; client sends %q, %v", id, err, token, sendErr)
		}
	}
}

// Files that change while the process runs: the next connection goes by them, and
// mistakes change nothing.
func TestRealFilesChange(t *testing.T) {
	ca, next := testca.New(t), testca.New(t)
	own := ca.Node("node")
	tokens := write(t, "tokens", "alice "+secretA+"\n")
	s := Settings{CA: ca.File, Cert: own.Cert, Key: own.Key, Tokens: tokens}
	g := openGuard(t, s)
	who := func(c *Client, token string) Identity {
		conn, err := connect(t, g, c)
		if err != nil {
			return ""
		}
		id, err := identify(g, conn, token)
		if err != nil {
			return ""
		}
		return id
	}
	bob := ca.Client("bob")
	authority := write(t, "ca", "")
	testca.Replace(t, authority, ca.File)
	c := openClient(t, Settings{CA: authority, Cert: bob.Cert, Key: bob.Key})
	if id := who(c, ""); id != "cn:bob" {
		t.Fatalf("before: %q", id)
	}
	_, changed := g.Rules()
	// The token of alice is taken away; first by a file that is not right.
	if err := os.WriteFile(tokens, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(); !errors.Is(err, ErrMaterial) {
		t.Errorf("reload of a broken file: %v", err)
	}
	if id, err := identify(g, here{}, secretA); id != "token:alice" {
		t.Errorf("after a broken file: %q, %v", id, err)
	}
	if err := os.WriteFile(tokens, []byte("carol "+secretB), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changed
	if _, err := identify(g, here{}, secretA); !errors.Is(err, ErrUnknown) {
		t.Errorf("a token that was taken away: %v", err)
	}
	// Another authority signs from now on. Key and certificate are replaced one after
	// the other; between that nothing changes.
	node := next.Node("node")
	testca.Replace(t, own.Cert, node.Cert)
	if err := g.Reload(); !errors.Is(err, ErrMaterial) {
		t.Errorf("a certificate without its key: %v", err)
	}
	if id := who(c, ""); id != "cn:bob" {
		t.Errorf("with half of a new pair: %q", id)
	}
	testca.Replace(t, own.Key, node.Key)
	testca.Replace(t, ca.File, next.File)
	eventually(t, "the old client is turned away", func() bool { return who(c, "") == "" })
	renewed := next.Client("bob")
	bob.Copy(t, renewed)
	testca.Replace(t, authority, next.File)
	eventually(t, "the renewed client is known", func() bool { return who(c, "") == "cn:bob" })
}

func TestSettings(t *testing.T) {
	for _, s := range []Settings{
		{Cert: "c"}, {Key: "k"}, {Name: "n"}, {Access: "a"}, {Cert: "c", Key: "k", Access: "a"},
	} {
		if _, err := OpenGuard(s, Options{}); !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := OpenGuard(Settings{Tokens: "t", Access: "a"}, Options{}); !errors.Is(err, ErrSettings) {
		t.Errorf("rules that nobody reads: %v", err)
	}
	if _, err := OpenClient(Settings{Token: filepath.Join(t.TempDir(), "none")}, Options{}); !errors.Is(err, ErrMaterial) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	own := write(t, "token", secretA)
	if c, err := OpenClient(Settings{Token: own, Access: "/a", Revoked: "/r"}, Options{}); err != nil {
		t.Errorf("a client that shares its settings with nodes: %v", err)
	} else {
		c.Close()
	}
	none := filepath.Join(t.TempDir(), "none")
	if s := (Settings{CA: "c", Cert: none, Key: none, Token: "t"}).Optional(); s.Cert != "" || s.Key != "" {
		t.Errorf("a host without the files of the site's certificate: %+v", s)
	}
	if s := (Settings{CA: "c", Cert: none, Key: none}).Optional(); s.Cert == "" {
		t.Error("a host without the files and without a token does not notice")
	}
}
