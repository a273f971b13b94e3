package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Guard is what a node knows of its clients: certificates, tokens and rules. It
// follows its files until Close. Any goroutine may use it.
type Guard struct {
	settings Settings
	options  Options
	w        *watched
	state    atomic.Pointer[guardState]
	mu       struct {
		sync.Mutex
		changed chan struct{} // closed when state is replaced
	}
}

type guardState struct {
	cert   *tls.Certificate // nil: no TLS
	roots  *x509.CertPool   // nil: clients are not asked for certificates
	lost   *revoked         // nil: no certificate is
	tokens *tokens          // nil: none are taken
	rules  *Rules           // nil: everybody who is known may do everything
}

// OpenGuard reads the files of a node. Of Settings it uses all but Name and Token.
// Errors match ErrSettings or ErrMaterial.
func OpenGuard(s Settings, o Options) (*Guard, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if s.Access != "" && o.Rules == nil {
		return nil, fmt.Errorf("%w: rules in %s, and nothing that reads them", ErrSettings, s.Access)
	}
	if s.Cert == "" { // then no client can show a certificate
		s.CA = ""
	}
	if s.CA == SystemCA && s.Access == "" {
		return nil, fmt.Errorf("%w: every certificate that an authority of the host's has signed, for whomever, would be let in: set the file of your own authority (CA), or rules", ErrSettings)
	}
	g := &Guard{settings: s, options: o}
	g.mu.changed = make(chan struct{})
	warnOpen(o.Logger, s.Key, s.Tokens)
	if s.Cert == "" && s.Tokens != "" && s.Plain == PlainAllowed {
		o.Logger.Warn("tokens are taken over plain TCP: whoever sees the packets has the tokens and the data")
	}
	if s.Cert != "" && s.CA == "" && s.Tokens == "" {
		o.Logger.Warn("TLS hides what clients send, and does not say who they are: whoever reaches the node may do everything; set an authority (--tls-ca) or tokens (--tokens)")
	}
	var err error
	g.w, err = watch([]string{caFile(s.CA), s.Cert, s.Key, s.Tokens, s.Access, s.Revoked}, o, g.take)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Guard) take(content [][]byte) error {
	var s guardState
	var err error
	var ca []*x509.Certificate
	if s.roots, ca, err = authorities(g.settings.CA, content[0]); err != nil {
		return err
	}
	if content[5] != nil {
		if s.lost, err = parseRevoked(g.settings.Revoked, content[5], ca); err != nil {
			return err
		}
	}
	if s.cert, err = chain(g.settings.Cert, g.settings.Key, content[1], content[2]); err != nil {
		return err
	}
	if content[3] != nil {
		if s.tokens, err = parseTokens(g.settings.Tokens, content[3]); err != nil {
			return err
		}
	}
	if content[4] != nil {
		if s.rules, err = g.options.Rules(g.settings.Access, content[4]); err != nil {
			return err
		}
	}
	g.state.Store(&s)
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.mu.changed)
	g.mu.changed = make(chan struct{})
	return nil
}

// TLS returns the configuration of the node's connections; nil: they have no TLS.
// Each handshake uses the files as they are then.
func (g *Guard) TLS() *tls.Config {
	if g.settings.Cert == "" {
		return nil
	}
	cfg := base()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s := g.state.Load()
		one := base()
		one.Certificates = []tls.Certificate{*s.cert}
		if s.roots != nil {
			one.ClientCAs, one.ClientAuth = s.roots, tls.RequireAndVerifyClientCert
			if s.tokens != nil {
				one.ClientAuth = tls.VerifyClientCertIfGiven
			}
		}
		return one, nil
	}
	return cfg
}

// PageTLS returns the configuration of connections by which browsers come, which are
// asked for no certificate; nil: the node has none of its own.
func (g *Guard) PageTLS() *tls.Config {
	if g.settings.Cert == "" {
		return nil
	}
	cfg := base()
	cfg.NextProtos = []string{"http/1.1"}
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.state.Load().cert, nil }
	return cfg
}

// Proof is what a peer has shown of who it is.
type Proof struct {
	chain  []*x509.Certificate // its own first; nil: none
	until  time.Time           // when the chain ends; zero: there is none
	digest [sha256.Size]byte   // of its token
	token  bool                // it has shown one
}

// Until is when the certificate that was shown is one no longer, or one of those that
// it is signed by; zero: none was shown.
func (p *Proof) Until() time.Time { return p.until }

// Show returns what the peer at the other end of a connection shows: its
// certificate, after the TLS handshake if there is one, and the token that came
// over it, of which a digest is kept. Errors match ErrPlain.
func (g *Guard) Show(conn net.Conn, token string) (Proof, error) {
	var p Proof
	if sealed, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := sealed.ConnectionState()
		p.chain, p.until = state.PeerCertificates, validUntil(state.VerifiedChains)
	}
	if token != "" {
		if g.settings.Plain == PlainLocal && !private(conn) {
			return p, fmt.Errorf("%w has been sent over the network: change it, and use TLS, or allow it at the node too (--token-plain)", ErrPlain)
		}
		p.token, p.digest = true, sha256.Sum256([]byte(token))
	}
	return p, nil
}

// Identify returns whom a proof is of, by the certificates and tokens of now. Errors
// match ErrUnknown, and say nothing of what was shown.
func (g *Guard) Identify(p Proof) (Identity, error) {
	s := g.state.Load()
	id := Identity("")
	if len(p.chain) > 0 && s.roots != nil {
		if err := s.verify(p.chain); err != nil {
			return "", err
		}
		var err error
		if id, err = OfCertificate(p.chain[0]); err != nil {
			return "", err
		}
	}
	if p.token {
		known, err := s.token(p.digest)
		if err != nil {
			return "", err
		}
		if id == "" {
			id = known
		}
	}
	switch {
	case id != "":
		return id, nil
	case s.roots == nil && s.tokens == nil:
		return Anonymous, nil
	}
	if _, open := s.rules.Grant(Anonymous); open && s.rules != nil {
		return Anonymous, nil
	}
	return "", fmt.Errorf("%w: it has shown %s", ErrUnknown, s.wanted())
}

// verify checks a chain by the authorities of now. The handshake has done so by
// those of then.
func (s *guardState) verify(chain []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{Roots: s.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("%w: its certificate: %w", ErrUnknown, err)
	}
	var lost *x509.Certificate
	for _, c := range chains {
		if lost = s.lost.one(c); lost == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: its certificate is revoked: serial %x of %s", ErrUnknown, lost.SerialNumber, lost.Issuer)
}

// validUntil is when the last of several chains ends; zero: there are none.
func validUntil(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(last) {
			last = first
		}
	}
	return last
}

func (s *guardState) token(digest [sha256.Size]byte) (Identity, error) {
	if s.tokens == nil {
		return "", fmt.Errorf("%w: this node takes no tokens; show a certificate", ErrUnknown)
	}
	name, ok := s.tokens.lookup(digest)
	if !ok {
		return "", fmt.Errorf("%w: its token is none of this node's", ErrUnknown)
	}
	return OfToken(name), nil
}

// wanted says what a client lacks that has shown nothing.
func (s *guardState) wanted() string {
	switch {
	case s.tokens == nil:
		return "no certificate (--tls-cert, --tls-key)"
	case s.roots == nil:
		return "no token (--token-file)"
	}
	return "neither a certificate (--tls-cert, --tls-key) nor a token (--token-file)"
}

// Rules returns the rules in force, nil if there are none, and a channel that is
// closed when the guard's files have changed.
func (g *Guard) Rules() (*Rules, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.Load().rules, g.mu.changed
}

// Authorise returns what an identity may do now. Errors match ErrForbidden.
func (g *Guard) Authorise(id Identity) (Grant, error) {
	grant, ok := g.state.Load().rules.Grant(id)
	if !ok {
		return Grant{}, fmt.Errorf("%w: no rule is about %s", ErrForbidden, id)
	}
	return grant, nil
}

// Reload looks at the files now.
func (g *Guard) Reload() error { return g.w.look() }

// Close ends following the files; what was read last stays in force.
func (g *Guard) Close() error {
	g.w.close()
	return nil
}
