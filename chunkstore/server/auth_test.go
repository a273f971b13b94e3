package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/auth/testca"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// keep is a logger whose lines a test can look at.
type keep struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (k *keep) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.Buffer.Write(p)
}

func (k *keep) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.Buffer.String()
}

func (k *keep) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(k, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// secretFile writes a file of secrets.
func secretFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openGuard(t testing.TB, s auth.Settings, o auth.Options) *auth.Guard {
	t.Helper()
	o.Poll = 20 * time.Millisecond
	g, err := auth.OpenGuard(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func credentials(t testing.TB, s auth.Settings) *auth.Client {
	t.Helper()
	c, err := auth.OpenClient(s, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func dialAs(t testing.TB, s *Server, c wire.Credentials) (*wire.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := wire.Dial(ctx, s.Addr().String(), wire.Options{Name: "test", Credentials: c})
	if err == nil {
		t.Cleanup(func() { client.Close() })
	}
	return client, err
}

// Appends, arena reads and durable reads over mutual TLS; who shows nothing, or
// something of another authority, gets nothing.
func TestRealMutualTLS(t *testing.T) {
	ca, foreign := testca.New(t), testca.New(t)
	node, log := ca.Node("node"), &keep{}
	s := serve(t, func(c *Config) {
		c.Guard = openGuard(t, auth.Settings{CA: ca.File, Cert: node.Cert, Key: node.Key}, auth.Options{})
		c.Logger = log.logger()
	})
	own := ca.Client("bob")
	c, err := dialAs(t, s, credentials(t, auth.Settings{CA: ca.File, Cert: own.Cert, Key: own.Key}))
	if err != nil {
		t.Fatal(err)
	}
	store := durable.NewRemote(c)
	const size = 3 << 20
	appendPattern(t, store, shardA, 0, size)
	got := make([]byte, size)
	for at := 0; at < size; {
		n, err := store.ReadAt(t.Context(), shardA.String(), uint64(at), got[at:])
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			t.Fatalf("durable read at %d: %d, %v", at, n, err)
		}
		at += n
	}
	if !bytes.Equal(got, pattern(0, size)) {
		t.Error("durable bytes differ")
	}
	info, err := store.Stat(t.Context(), shardA.String())
	if err != nil {
		t.Fatal(err)
	}
	r := overTCP(t, c)
	hash := shardA.Hash(info.Incarnation)
	if e := r.entry(t, shardA); !e.Valid(hash) || e.Length != size {
		t.Errorf("published length %d, want %d", e.Length, size)
	}
	if got := r.chunk(t, hash, 700); !bytes.Equal(got, pattern(700*4096, 4096)) {
		t.Error("arena bytes differ")
	}
	if !strings.Contains(log.String(), "identity=cn:bob") {
		c.Close()
		eventually(t, "the log names the identity", func() bool { return strings.Contains(log.String(), "identity=cn:bob") })
	}
	other := foreign.Client("bob")
	for name, c := range map[string]struct {
		as   wire.Credentials
		want error
	}{
		"no TLS":              {nil, wire.ErrUnknownPeer},
		"no certificate":      {credentials(t, auth.Settings{CA: ca.File}), nil},
		"foreign certificate": {credentials(t, auth.Settings{CA: ca.File, Cert: other.Cert, Key: other.Key}), nil},
		"foreign node":        {credentials(t, auth.Settings{CA: foreign.File}), wire.ErrSeal},
	} {
		if _, err := dialAs(t, s, c.as); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually(t, "nobody is left", func() bool { return s.Stats().Connections <= 1 })
}

func TestRealTokens(t *testing.T) {
	const good, bad = "a-token-of-the-test-0001", "a-token-of-the-test-0002"
	log := &keep{}
	s := serve(t, func(c *Config) {
		c.Guard = openGuard(t, auth.Settings{Tokens: secretFile(t, "tokens", "alice "+good)}, auth.Options{})
		c.Logger = log.logger()
	})
	as := func(token string) wire.Credentials {
		return credentials(t, auth.Settings{Token: secretFile(t, "token", token)})
	}
	c, err := dialAs(t, s, as(good))
	if err != nil {
		t.Fatal(err)
	}
	appendPattern(t, durable.NewRemote(c), shardA, 0, 1000)
	for _, as := range []wire.Credentials{as(bad), nil} {
		if _, err := dialAs(t, s, as); !errors.Is(err, wire.ErrUnknownPeer) || strings.Contains(fmt.Sprint(err), bad) {
			t.Errorf("%v", err)
		}
	}
	// One that pipelines requests behind a Hello that is refused gets none answered.
	nc := rawDial(t, s)
	hello, err := wire.HelloRequest{Version: wire.Version, Token: bad}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 64}})
	if _, err := nc.Write(append(frame(wire.Header{Op: wire.OpHello}, hello), frame(wire.Header{Op: wire.OpReadArena, ID: 1}, req)...)); err != nil {
		t.Fatal(err)
	}
	if h, _ := receive(t, nc); h.Op != wire.OpHello || h.Status != wire.StatusUnknownPeer {
		t.Errorf("reply %v, status %d", h.Op, h.Status)
	}
	closedByPeer(t, nc)
	if text := log.String(); strings.Contains(text, good) || strings.Contains(text, bad) {
		t.Error("the log shows a token")
	}
}

// Half TLS handshakes end by the handshake's deadline, noise at once, and a client
// that follows does not notice.
func TestRealHalfHandshakes(t *testing.T) {
	ca := testca.New(t)
	node := ca.Node("node")
	s := serve(t, func(c *Config) {
		c.Guard = openGuard(t, auth.Settings{CA: ca.File, Cert: node.Cert, Key: node.Key}, auth.Options{})
		c.Limits.Handshake = 200 * time.Millisecond
	})
	own := ca.Client("bob")
	good, err := dialAs(t, s, credentials(t, auth.Settings{CA: ca.File, Cert: own.Cert, Key: own.Key}))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "record header": {22, 3, 1, 0, 200}, "half a client hello": append([]byte{22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3}, noise(50)...),
		"noise in a record": append([]byte{22, 3, 1, 0, 200}, noise(200)...), "noise": append([]byte{0xf0}, noise(300)...), "huge record": append([]byte{22, 3, 1, 0xff, 0xff}, noise(400)...),
		"plain hello": hello(t),
	} {
		nc := rawDial(t, s)
		if _, err := nc.Write(b); err != nil {
			t.Logf("%s: %v", name, err)
		}
		closedByPeer(t, nc)
	}
	drip(t, rawDial(t, s), []byte{22, 3, 1, 0x3f, 0xff})
	if _, err := good.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("the good client: %v", err)
	}
	eventually(t, "only the good client is left", func() bool { return s.Stats().Connections == 1 })
}

// Without TLS a connection stays the socket that it is, so that replies leave the
// arena by vectored writes, with and without a guard.
func TestRealPlainConnectionsAreSockets(t *testing.T) {
	for name, guard := range map[string]*auth.Guard{
		"no guard": nil, "tokens": openGuard(t, auth.Settings{Tokens: secretFile(t, "tokens", "a a-token-of-the-test-0001")}, auth.Options{}),
	} {
		s := serve(t, func(c *Config) { c.Guard = guard })
		nc := rawDial(t, s)
		eventually(t, "it is there", func() bool { return s.Stats().Connections == 1 })
		s.eachConn(func(c *conn) {
			if _, ok := c.nc.(*net.TCPConn); !ok {
				t.Errorf("%s: the connection is a %T", name, c.nc)
			}
		})
		nc.Close()
	}
}
