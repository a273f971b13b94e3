package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/auth/testca"
)

// Connections that ask for nothing use up their address's share: others are answered,
// and a place is free when one of them ends.
func TestRealHTTPConnections(t *testing.T) {
	s := serve(t, func(c *Config) { c.HTTP = "127.0.0.1:0" })
	var idle []net.Conn
	for range httpConnsFrom {
		nc, err := net.DialTimeout("tcp", s.HTTPAddr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		idle = append(idle, nc)
	}
	health := func(from string) (int, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
		r, err := client.Get("http://" + s.HTTPAddr().String() + "/healthz")
		if err != nil {
			return 0, err
		}
		return r.StatusCode, r.Body.Close()
	}
	if code, err := health("127.0.0.1"); err == nil {
		t.Errorf("one more from there: %d", code)
	}
	if code, err := health("127.0.0.2"); code != 200 || err != nil {
		t.Errorf("one from elsewhere: %d, %v", code, err)
	}
	idle[0].Close()
	eventually(t, "a place is free", func() bool {
		code, err := health("127.0.0.1")
		return code == 200 && err == nil
	})
}

// The page by TLS, with the node's certificate, and by that alone. Browsers are asked
// for none.
func TestRealHTTPS(t *testing.T) {
	ca := testca.New(t)
	node := ca.Node("node")
	g := openGuard(t, auth.Settings{CA: ca.File, Cert: node.Cert, Key: node.Key}, auth.Options{})
	s := serve(t, func(c *Config) { c.HTTP, c.Guard = "https://127.0.0.1:0", g })
	own, err := credentials(t, auth.Settings{CA: ca.File}).TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	old := own.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	get := func(scheme string, cfg *tls.Config) (int, string, error) {
		client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		r, err := client.Get(scheme + "://" + s.HTTPAddr().String() + "/metrics")
		if err != nil {
			return 0, "", err
		}
		b, err := io.ReadAll(r.Body)
		return r.StatusCode, string(b), errors.Join(err, r.Body.Close())
	}
	if code, text, err := get("https", own); code != 200 || err != nil || !strings.Contains(text, "rmatail_") {
		t.Errorf("by TLS: %d, %v", code, err)
	}
	if _, _, err := get("https", old); err == nil {
		t.Error("by TLS 1.2")
	}
	if code, text, err := get("http", nil); code == 200 || strings.Contains(text, "rmatail_") {
		t.Errorf("in the clear: %d, %v", code, err)
	}
	nc, err := net.DialTimeout("tcp", s.HTTPAddr().String(), patience) // half a handshake
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write([]byte{22, 3, 1, 0, 200})
	closedByPeer(t, nc)
	for _, cfg := range []Config{{Listen: "127.0.0.1:0", HTTP: "https://127.0.0.1:0"},
		{Listen: "127.0.0.1:0", HTTP: "https://127.0.0.1:0", Guard: openGuard(t, auth.Settings{Tokens: secretFile(t, "tokens", "x "+tokenOf("x"))}, auth.Options{})}} {
		if err := cfg.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--tls-cert") {
			t.Errorf("without a certificate: %v", err)
		}
	}
}
