package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
)

// Client is what a process shows to nodes, and what it demands of them. It follows
// its files until Close. Any goroutine may use it.
type Client struct {
	settings Settings
	w        *watched
	state    atomic.Pointer[clientState]
}

type clientState struct {
	cert  *tls.Certificate // nil: none is shown
	roots *x509.CertPool   // nil: no TLS
	token string           // empty: none
}

// OpenClient reads the files of a client. Of Settings it uses CA, Cert, Key, Name,
// Token and Plain. Errors match ErrSettings or ErrMaterial.
func OpenClient(s Settings, o Options) (*Client, error) {
	s.Tokens, s.Access, s.Revoked = "", "", "" // a node's
	if err := s.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if s.CA == "" {
		s.Cert, s.Key = "", ""
	}
	c := &Client{settings: s}
	warnOpen(o.Logger, s.Key, s.Token)
	var err error
	c.w, err = watch([]string{caFile(s.CA), s.Cert, s.Key, s.Token}, o, c.take)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Optional returns s without a certificate when this host has neither its file nor
// its key's, but a token: the settings are those of a whole site, and a host that
// has only a token goes by that.
func (s Settings) Optional() Settings {
	if s.Token != "" && s.Cert != "" && absent(s.Cert) && absent(s.Key) {
		s.Cert, s.Key = "", ""
	}
	return s
}

func (c *Client) take(content [][]byte) error {
	var s clientState
	var err error
	if s.roots, _, err = authorities(c.settings.CA, content[0]); err != nil {
		return err
	}
	if s.cert, err = chain(c.settings.Cert, c.settings.Key, content[1], content[2]); err != nil {
		return err
	}
	if content[3] != nil {
		if s.token, err = ownToken(c.settings.Token, content[3]); err != nil {
			return err
		}
	}
	c.state.Store(&s)
	return nil
}

// TLS returns the configuration of one connection to a host; nil: none.
func (c *Client) TLS(host string) (*tls.Config, error) {
	s := c.state.Load()
	if s.roots == nil {
		return nil, nil
	}
	cfg := base()
	cfg.RootCAs, cfg.ServerName = s.roots, host
	if c.settings.Name != "" {
		cfg.ServerName = c.settings.Name
	}
	if zone := strings.IndexByte(cfg.ServerName, '%'); zone >= 0 { // of a link-local address: no part of a certificate
		cfg.ServerName = cfg.ServerName[:zone]
	}
	if s.cert != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.cert, nil }
	}
	return cfg, nil
}

// Token returns the token to show over a connection; empty: none. The error
// matches ErrPlain when others could see it there.
func (c *Client) Token(conn net.Conn) (string, error) {
	s := c.state.Load()
	if s.token != "" && c.settings.Plain == PlainLocal && !private(conn) {
		return "", fmt.Errorf("%w would be seen by whoever sees the packets to %s: set an authority (--tls-ca FILE), or allow it (--token-plain)", ErrPlain, conn.RemoteAddr())
	}
	return s.token, nil
}

// Reload looks at the files now.
func (c *Client) Reload() error { return c.w.look() }

// Close ends following the files; what was read last stays.
func (c *Client) Close() error {
	c.w.close()
	return nil
}

// private says whether nobody on a network can see what a connection carries.
func private(conn net.Conn) bool {
	if _, sealed := conn.(interface{ ConnectionState() tls.ConnectionState }); sealed {
		return true
	}
	switch a := conn.RemoteAddr().(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}
