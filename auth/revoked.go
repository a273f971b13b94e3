package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
)

// revoked are certificates that are not taken, although an authority has signed them.
type revoked struct {
	prints map[[sha256.Size]byte]bool
	// serials are those of revocation lists, by issuer (DER).
	serials map[string]map[string]bool
}

// parseRevoked reads a file of revoked certificates: revocation lists (RFC 5280, PEM)
// that one of the authorities in ca has signed, or lines that begin with the SHA-256
// fingerprint of a certificate, in hexadecimal with or without colons. Empty lines and
// those that begin with '#' do not count.
func parseRevoked(path string, content []byte, ca []*x509.Certificate) (*revoked, error) {
	r := &revoked{prints: map[[sha256.Size]byte]bool{}, serials: map[string]map[string]bool{}}
	if bytes.Contains(content, []byte("-----BEGIN")) {
		return r, r.addLists(path, content, ca)
	}
	for i, line := range bytes.Split(content, []byte("\n")) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(fields[0], ":", ""))
		if err != nil || len(b) != sha256.Size {
			return nil, fmt.Errorf("%w: %s:%d: no fingerprint; want what 'openssl x509 -noout -fingerprint -sha256 -in FILE' prints behind '='", ErrMaterial, path, i+1)
		}
		r.prints[[sha256.Size]byte(b)] = true
	}
	return r, nil
}

func (r *revoked) addLists(path string, content []byte, ca []*x509.Certificate) error {
	blocks, err := blocksOf(path, "X509 CRL", content)
	if err != nil {
		return err
	}
	for i, der := range blocks {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return fmt.Errorf("%w: %s: revocation list %d: %w", ErrMaterial, path, i+1, err)
		}
		if !signedByOne(list, ca) {
			return fmt.Errorf("%w: %s: revocation list %d, of %s, is not signed by an authority of the CA file", ErrMaterial, path, i+1, list.Issuer)
		}
		of := r.serials[string(list.RawIssuer)]
		if of == nil {
			of = map[string]bool{}
			r.serials[string(list.RawIssuer)] = of
		}
		for _, e := range list.RevokedCertificateEntries {
			of[e.SerialNumber.String()] = true
		}
	}
	return nil
}

func signedByOne(list *x509.RevocationList, ca []*x509.Certificate) bool {
	for _, c := range ca {
		if bytes.Equal(c.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(c) == nil {
			return true
		}
	}
	return false
}

// one returns a certificate of a chain that is revoked; nil: none is.
func (r *revoked) one(chain []*x509.Certificate) *x509.Certificate {
	if r == nil {
		return nil
	}
	for _, c := range chain {
		if r.prints[sha256.Sum256(c.Raw)] || r.serials[string(c.RawIssuer)][c.SerialNumber.String()] {
			return c
		}
	}
	return nil
}

// blocksOf returns the content of the PEM blocks of a kind. Others are passed over;
// what begins as a block and is none is an error: half a file is not taken.
func blocksOf(path, kind string, content []byte) (blocks [][]byte, err error) {
	begun := bytes.Count(content, []byte("-----BEGIN "))
	for n := 0; ; n++ {
		var b *pem.Block
		if b, content = pem.Decode(content); b == nil {
			if n < begun {
				return nil, fmt.Errorf("%w: %s: %d blocks of PEM begin, and %d are whole", ErrMaterial, path, begun, n)
			}
			break
		}
		if b.Type == kind {
			blocks = append(blocks, b.Bytes)
		}
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%w: %s: no %s in PEM", ErrMaterial, path, strings.ToLower(kind))
	}
	return blocks, nil
}
