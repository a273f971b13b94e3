package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/fallback/wire"
)

// authFlags say what a process shows the nodes that it talks to, and what it demands
// of them. They count for every command, and before what a cluster file says.
type authFlags struct {
	TLSCA      string `name:"tls-ca" help:"Talk TLS with nodes: the authorities that sign their certificates (PEM), or system for those that this host trusts. A node asks clients for certificates of these authorities." placeholder:"FILE"`
	TLSCert    string `name:"tls-cert" help:"This process's own certificate (PEM). A node with one takes TLS only." placeholder:"FILE"`
	TLSKey     string `name:"tls-key" help:"The key of --tls-cert (PEM)." placeholder:"FILE"`
	TLSName    string `name:"tls-name" help:"The name that nodes' certificates must be for. Default: the host that is dialled." placeholder:"NAME"`
	TokenFile  string `help:"A file with the token that this process shows to nodes." placeholder:"FILE"`
	TokenPlain bool   `help:"Let tokens travel over networks without TLS: whoever sees the packets has them."`
}

func (f authFlags) settings() auth.Settings {
	s := auth.Settings{CA: f.TLSCA, Cert: f.TLSCert, Key: f.TLSKey, Name: f.TLSName, Token: f.TokenFile}
	if f.TokenPlain {
		s.Plain = auth.PlainAllowed
	}
	return s
}

// over returns s with what f says instead.
func (f authFlags) over(s auth.Settings) auth.Settings {
	own := f.settings()
	if own.Cert != "" || own.Key != "" {
		s.Cert, s.Key = own.Cert, own.Key
	}
	s.CA, s.Name, s.Token = cmp.Or(own.CA, s.CA), cmp.Or(own.Name, s.Name), cmp.Or(own.Token, s.Token)
	s.Plain = max(own.Plain, s.Plain)
	return s
}

// know makes the process known to the nodes that it will talk to; the cluster's file
// may say how. A second call does nothing.
func (p *process) know(clusterFile string) error {
	if p.client != nil {
		return nil
	}
	var s auth.Settings
	if clusterFile != "" {
		f, err := file.Load(clusterFile)
		if err != nil {
			return err
		}
		s = f.Auth
	}
	return p.knowBy(p.authFlags.over(s.Optional()))
}

func (p *process) knowBy(s auth.Settings) error {
	if !s.Client() {
		return nil
	}
	client, err := auth.OpenClient(s, auth.Options{Logger: p.quiet})
	if err != nil {
		return err
	}
	p.client = client
	return nil
}

// credentials are what know has found; nil: none.
func (p *process) credentials() wire.Credentials {
	if p.client == nil {
		return nil
	}
	return p.client
}

// forget ends following the files of know.
func (p *process) forget() {
	if p.client != nil {
		_ = p.client.Close() // it has nothing to say
	}
}

// guard opens what the node knows of its clients; nil: it takes everybody.
func (c *serveCmd) guard(p *process, described *file.Cluster) (*auth.Guard, error) {
	var s auth.Settings
	if described != nil {
		s = described.Auth
	}
	s = p.authFlags.over(s)
	s.Tokens, s.Access, s.Revoked = cmp.Or(c.Tokens, s.Tokens), cmp.Or(c.Access, s.Access), cmp.Or(c.Revoked, s.Revoked)
	if s.CA != "" && s.Cert == "" {
		return nil, fmt.Errorf("%w: an authority (--tls-ca), and no certificate of the node's own: set --tls-cert and --tls-key", errUsage)
	}
	if err := p.knowBy(s); err != nil {
		return nil, err
	}
	if !s.Node() {
		return nil, nil
	}
	g, err := auth.OpenGuard(s, auth.Options{Rules: file.ParseAccess, Logger: p.log})
	if errors.Is(err, auth.ErrSettings) {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return g, err
}
