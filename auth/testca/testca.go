// Package testca makes certificate authorities and the certificates that they sign,
// as files, for tests.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// CA is an authority. Its certificate is in File.
type CA struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	File string
}

// Pair is a certificate and its key, in files.
type Pair struct{ Cert, Key string }

// New makes an authority whose files lie in the test's temporary directory.
func New(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir()}
	ca.key = newKey(t)
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der := ca.sign(template, &ca.key.PublicKey, template)
	var err error
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.File = ca.write("ca.pem", "CERTIFICATE", der)
	return ca
}

// Node issues a certificate for nodes on the loopback; clients may show it too.
func (ca *CA) Node(name string) Pair {
	return ca.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}})
}

// Client issues a certificate with a common name.
func (ca *CA) Client(name string) Pair {
	return ca.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}})
}

// Until issues a certificate with a common name that ends at a time.
func (ca *CA) Until(name string, end time.Time) Pair {
	return ca.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: end})
}

// Revoke makes a revocation list of certificates, as a file in PEM.
func (ca *CA) Revoke(certs ...*x509.Certificate) string {
	ca.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(-time.Minute)}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, ca.cert, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return ca.write("revoked.pem", "X509 CRL", der)
}

// Read returns the certificate of a pair.
func (p Pair) Read(t testing.TB) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// URI issues a certificate with a URI, and the common name "x".
func (ca *CA) URI(file, uri string) Pair {
	u, err := url.Parse(uri)
	if err != nil {
		ca.t.Fatal(err)
	}
	return ca.issue(file, &x509.Certificate{Subject: pkix.Name{CommonName: "x"}, URIs: []*url.URL{u}})
}

func (ca *CA) issue(name string, template *x509.Certificate) Pair {
	ca.t.Helper()
	key := newKey(ca.t)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der := ca.sign(template, &key.PublicKey, ca.cert)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	name = strings.NewReplacer("/", "-", ":", "-").Replace(name)
	return Pair{ca.write(name+".pem", "CERTIFICATE", der), ca.write(name+".key", "PRIVATE KEY", private)}
}

func (ca *CA) sign(template *x509.Certificate, key *ecdsa.PublicKey, parent *x509.Certificate) []byte {
	ca.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		ca.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return der
}

func (ca *CA) write(name, kind string, der []byte) string {
	ca.t.Helper()
	path := filepath.Join(ca.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Copy replaces the files of a pair by those of another, each by a rename, as who
// renews certificates does.
func (p Pair) Copy(t testing.TB, from Pair) {
	t.Helper()
	for to, source := range map[string]string{p.Cert: from.Cert, p.Key: from.Key} {
		Replace(t, to, source)
	}
}

// Replace gives a file the content of another, by a rename.
func Replace(t testing.TB, path, source string) {
	t.Helper()
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
