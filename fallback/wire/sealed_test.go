package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// sides are the two configurations of a TLS connection of these tests.
type sides struct{ server, client *tls.Config }

var testTLS = sync.OnceValue(func() sides {
	key := sure(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der := sure(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	roots := x509.NewCertPool()
	roots.AddCert(sure(x509.ParseCertificate(der)))
	return sides{
		server: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		client: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
	}
})

// testCredentials are those of a test: TLS by a configuration, if it is there, and a token.
type testCredentials struct {
	tls   *tls.Config
	token string
	err   error
}

func (c testCredentials) TLS(host string) (*tls.Config, error) {
	if c.tls == nil {
		return nil, nil
	}
	cfg := c.tls.Clone()
	cfg.ServerName = host
	return cfg, nil
}

func (c testCredentials) Token(net.Conn) (string, error) { return c.token, c.err }

func credentialsFor(network string) Credentials {
	if network != "tls" {
		return nil
	}
	return testCredentials{tls: testTLS().client}
}

// Over TLS too a write deadline gives callers their memory back, and the node gets each frame as it was started.
func TestRealStallInsideASealedRequest(t *testing.T) { stallInsideARequest(t, "tls") }

// Replies whose callers gave up half way are dropped, and the connection goes on: a read deadline does not end TLS.
func TestRealSealedReplyGivenUp(t *testing.T) {
	on := make(chan struct{})
	c := dial(t, node(t, "tls", func(p *peer) {
		for {
			h, _, err := p.Next()
			if err != nil {
				return
			}
			if h.Op == OpPing {
				p.send(AppendReply(nil, h, 0))
				continue
			}
			p.send(AppendReply(nil, h, MaxRead))
			p.send(bytes.Repeat([]byte{1}, MaxRead/2))
			<-on
			p.send(bytes.Repeat([]byte{1}, MaxRead/2))
		}
	}), Options{Credentials: credentialsFor("tls")})
	buf := make([]byte, MaxRead)
	req := must(AppendReadArena(nil, []ArenaRead{{Off: 0, N: MaxRead}}))
	call, err := c.Start(time.Now().Add(100*time.Millisecond), OpReadArena, req, nil, [][]byte{buf})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("half a reply: %v", err)
	}
	close(on)
	ping(t, c)
}

func TestRealSeal(t *testing.T) {
	serve := func(p *peer) { _, _ = p.next() }
	foreign := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	for name, c := range map[string]struct {
		network string
		o       Options
		want    error
	}{
		"unknown authority": {"tls", Options{Credentials: testCredentials{tls: foreign}}, ErrSeal},
		"node without TLS":  {"tcp", Options{Credentials: credentialsFor("tls"), Timeout: time.Second}, ErrSeal},
		"token refused":     {"tcp", Options{Credentials: testCredentials{err: io.ErrNoProgress}}, io.ErrNoProgress},
	} {
		if _, err := Dial(t.Context(), node(t, c.network, serve), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	_, err := Dial(t.Context(), node(t, "tls", serve), Options{})
	if err == nil {
		t.Error("a client without TLS and a node with it understand each other")
	}
}

// The token is in the Hello, and in no error.
func TestRealToken(t *testing.T) {
	const secret = "0123456789abcdef-secret"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan HelloRequest, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := make([]byte, HeaderLen)
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Error(err)
			return
		}
		h := sure(ParseHeader(b))
		p := make([]byte, h.Length)
		if _, err := io.ReadFull(conn, p); err != nil {
			t.Error(err)
			return
		}
		hello, err := ParseHelloRequest(p)
		if err != nil {
			t.Error(err)
		}
		got <- hello
		_ = WriteError(conn, h, &Error{Status: StatusUnknownPeer})
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = Dial(ctx, l.Addr().String(), Options{Name: "n", Credentials: testCredentials{token: secret}})
	if hello := await(t, got, "hello"); hello.Token != secret || hello.Name != "n" {
		t.Errorf("the node got token %q of %q", hello.Token, hello.Name)
	}
	if !errors.Is(err, ErrUnknownPeer) || strings.Contains(err.Error(), secret) {
		t.Errorf("refusal: %v", err)
	}
}

func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
