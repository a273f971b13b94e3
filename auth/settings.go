package auth

import (
	"fmt"
	"log/slog"
	"time"
)

// Plain says whether tokens may travel over networks without TLS.
type Plain uint8

const (
	// PlainLocal lets them travel over the loopback and Unix sockets only.
	PlainLocal Plain = iota
	// PlainAllowed lets them travel anywhere: whoever can see the packets has them.
	PlainAllowed
)

// Settings name the files of one process. The zero value asks for nothing and shows
// nothing. It is comparable.
type Settings struct {
	// CA holds the certificates (PEM) of the authorities that sign those of the peers;
	// "system" means the host's own. For a client, CA switches TLS on. For a node, Cert
	// and Key do, and CA makes it ask clients for certificates.
	CA string
	// Cert and Key are this process's own certificate chain and key (PEM).
	Cert, Key string
	// Revoked is a node's file of certificates that it does not take although they are
	// signed: fingerprints or revocation lists, see the package comment.
	Revoked string
	// Name is what a node's certificate must be for. Empty: the host that is dialled.
	Name string
	// Token is the file of the token that this process shows, as a client.
	Token string
	// Tokens is the file of the tokens that a node takes: a line NAME TOKEN for each.
	Tokens string
	// Access is the file of a node's rules. Package auth does not read it: see Options.
	Access string
	Plain  Plain
}

// SystemCA as Settings.CA means the authorities that the host trusts.
const SystemCA = "system"

// Client says whether there is anything for a client in s.
func (s Settings) Client() bool { return s.CA != "" || s.Token != "" }

// Node says whether there is anything for a node in s.
func (s Settings) Node() bool { return s.Cert != "" || s.Tokens != "" || s.Access != "" }

// Validate reports settings that contradict each other. Errors match ErrSettings.
func (s Settings) Validate() error {
	switch {
	case (s.Cert == "") != (s.Key == ""):
		return fmt.Errorf("%w: a certificate and its key go together: certificate %q, key %q", ErrSettings, s.Cert, s.Key)
	case s.Revoked != "" && (s.CA == "" || s.Cert == ""):
		return fmt.Errorf("%w: revoked certificates, and none are asked for: set certificate, key and authority (CA)", ErrSettings)
	case s.Name != "" && s.CA == "":
		return fmt.Errorf("%w: name %q of the nodes' certificates, and no authority (CA) to verify them by", ErrSettings, s.Name)
	case s.Cert != "" && s.CA == "" && s.Tokens == "" && s.Access != "":
		return fmt.Errorf("%w: rules, and nothing to know anybody by: set an authority (CA) for certificates, or tokens", ErrSettings)
	case s.Access != "" && s.Cert == "" && s.Tokens == "":
		return fmt.Errorf("%w: rules, and nothing to know anybody by: set certificate, key and authority (CA), or tokens", ErrSettings)
	}
	return nil
}

// Options of an opened Client or Guard. The zero value is usable.
type Options struct {
	// Poll is how often the files are looked at. 5 s.
	Poll time.Duration
	// Rules reads the content of Settings.Access. nil with Settings.Access set is an
	// error.
	Rules  func(path string, content []byte) (*Rules, error)
	Logger *slog.Logger // nil: nothing is logged
}

func (o Options) withDefaults() Options {
	if o.Poll <= 0 {
		o.Poll = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
