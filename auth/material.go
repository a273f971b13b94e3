package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// chain reads a certificate chain and its key. Nil without them.
func chain(certPath, keyPath string, cert, key []byte) (*tls.Certificate, error) {
	if cert == nil {
		return nil, nil
	}
	c, err := tls.X509KeyPair(cert, key)
	if err != nil { // it names no bytes of the key
		return nil, fmt.Errorf("%w: certificate %s and key %s: %w", ErrMaterial, certPath, keyPath, err)
	}
	return &c, nil
}

// authorities reads the certificates of a CA file. Nil without one; those of the host
// are a pool alone.
func authorities(path string, content []byte) (*x509.CertPool, []*x509.Certificate, error) {
	switch {
	case path == "":
		return nil, nil, nil
	case path == SystemCA:
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: the host's authorities: %w", ErrMaterial, err)
		}
		return pool, nil, nil
	}
	blocks, err := blocksOf(path, "CERTIFICATE", content)
	if err != nil {
		return nil, nil, err
	}
	pool, list := x509.NewCertPool(), make([]*x509.Certificate, len(blocks))
	for i, der := range blocks {
		if list[i], err = x509.ParseCertificate(der); err != nil {
			return nil, nil, fmt.Errorf("%w: %s: certificate %d: %w", ErrMaterial, path, i+1, err)
		}
		pool.AddCert(list[i])
	}
	return pool, list, nil
}

// caFile is the file to read for a CA, if it is one.
func caFile(ca string) string {
	if ca == SystemCA {
		return ""
	}
	return ca
}

// base is what all connections have in common. Tickets would let a client return
// that has been shut out meanwhile; records are small at first only to please
// browsers.
func base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}
