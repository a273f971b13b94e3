package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// guard decides which HTTP requests are answered.
type guard struct {
	loopback bool // the listener is of this host alone
	asked    bool // clients of the node are asked who they are
	admit    func(*http.Request) bool
}

// protect answers those that may be. Refused are:
//
//   - on a loopback listener, those whose Host names another host: a page from
//     elsewhere whose name was made to point here (DNS rebinding) would be of the same
//     origin as this node's, to the browser;
//   - those that a browser makes on behalf of another site, but for a link that is
//     followed to the page;
//   - those from elsewhere, where clients are asked who they are and those of HTTP are
//     not: page and metrics tell of all tenants' shards;
//   - those that admit does not let in.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case g.loopback && !localName(r.Host):
			say(w, http.StatusMisdirectedRequest, fmt.Sprintf("this address answers to localhost and loopback addresses alone, not to %.100q", r.Host))
		case otherSite(r):
			say(w, http.StatusForbidden, "another site asks")
		case g.hidden():
			say(w, http.StatusForbidden, "this node asks its clients who they are, and has no token for HTTP: rmatail serve --http-token FILE, or a loopback address")
		case g.admit != nil && !g.admit(r):
			// Basic for browsers, which ask for a password: that is the token.
			w.Header().Add("WWW-Authenticate", `Basic realm="rmatail: any user, the token as password", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", "Bearer")
			say(w, http.StatusUnauthorized, "a token is needed: Authorization: Bearer TOKEN")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hidden says whether nobody is told anything but health.
func (g *guard) hidden() bool { return g.asked && !g.loopback && g.admit == nil }

// profiles lets profiles be had by whoever is on this host, or was admitted: they
// show memory's contents by their names, and cost processor time.
func (g *guard) profiles(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.admit == nil && (!g.loopback || forwarded(r)) {
			say(w, http.StatusForbidden, "profiles are served at a loopback address, and not through a proxy, or with a token: rmatail serve --http-token FILE")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forwarded says whether a proxy on this host asks for somebody elsewhere. Most say so;
// who says so falsely gets less.
func forwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// localName says whether a Host header names this host for itself.
func localName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// otherSite says whether a browser asks for a page of another site.
func otherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" {
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// The shortest and the longest token of a TokenFile, in bytes.
const (
	tokenLeast = 16
	tokenMost  = 4096
)

// TokenFile returns a Config.HTTPAdmit: requests need the token that a file holds, as
// "Authorization: Bearer TOKEN", or as the password of a browser. The file is read for
// each request, so that a new token counts at once; a file that cannot be read admits
// nobody. Errors match ErrConfig.
func TokenFile(path string) (func(*http.Request) bool, error) {
	if _, err := readToken(path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return func(r *http.Request) bool {
		given := bearer(r)
		if given == "" {
			return false
		}
		want, err := readToken(path)
		if err != nil {
			return false
		}
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256(want)
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}, nil
}

// bearer is the token of a request; empty: none.
func bearer(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func readToken(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("http token: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, tokenMost+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("http token: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) < tokenLeast || len(b) > tokenMost {
		return nil, fmt.Errorf("http token in %s of %d bytes, want %d to %d: head -c 32 /dev/urandom | base64 makes one", path, len(b), tokenLeast, tokenMost)
	}
	return b, nil
}
