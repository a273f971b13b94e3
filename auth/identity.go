package auth

import (
	"crypto/x509"
	"fmt"
	"strconv"
)

// Identity is who a peer is; see the package comment for its forms.
type Identity string

// Anonymous is whoever reached a node that asks for nothing.
const Anonymous Identity = "anonymous"

// maxIdentity bounds the bytes of an identity: it goes into logs.
const maxIdentity = 256

// OfCertificate returns who a certificate is about. The caller has verified it.
// Errors match ErrUnknown.
func OfCertificate(c *x509.Certificate) (Identity, error) {
	id := Identity("cn:" + c.Subject.CommonName)
	if len(c.URIs) > 0 {
		id = Identity("uri:" + c.URIs[0].String())
	}
	if id == "cn:" || len(id) > maxIdentity {
		return "", fmt.Errorf("%w: its certificate has no URI and no common name, or one over %d bytes", ErrUnknown, maxIdentity)
	}
	return id, nil
}

// OfToken returns who a token's name is about.
func OfToken(name string) Identity { return Identity("token:" + name) }

// OfUser returns who a process of a user is.
func OfUser(uid uint32) Identity { return Identity("uid:" + strconv.FormatUint(uint64(uid), 10)) }
