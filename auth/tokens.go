package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
)

const (
	// MinToken and MaxToken bound a token's bytes.
	MinToken, MaxToken = 16, 255
	maxTokenName       = 64
	maxTokens          = 10_000
)

// tokens are those that a node takes. Only their digests are kept.
type tokens struct {
	digests [][sha256.Size]byte
	names   []string
}

// parseTokens reads lines of NAME TOKEN; empty lines and those that begin with '#'
// do not count. Errors name a line, never what stands there.
func parseTokens(path string, content []byte) (*tokens, error) {
	t := &tokens{}
	names, digests := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i, line := range bytes.Split(content, []byte("\n")) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		wrong := func(text string) error {
			return fmt.Errorf("%w: %s:%d: %s; want NAME TOKEN, a token of %d to %d characters such as 'openssl rand -hex 32' gives",
				ErrMaterial, path, i+1, text, MinToken, MaxToken)
		}
		if len(fields) != 2 {
			return nil, wrong(fmt.Sprintf("%d words", len(fields)))
		}
		name, secret := fields[0], fields[1]
		if len(name) > maxTokenName {
			return nil, wrong(fmt.Sprintf("a name of %d bytes, at most %d", len(name), maxTokenName))
		}
		if err := checkToken(secret); err != nil {
			return nil, wrong(err.Error())
		}
		digest := sha256.Sum256([]byte(secret))
		switch {
		case names[name]:
			return nil, wrong("a name for the second time")
		case digests[digest]:
			return nil, wrong("a token that another name has")
		case len(t.names) == maxTokens:
			return nil, wrong(fmt.Sprintf("over %d tokens", maxTokens))
		}
		names[name], digests[digest] = true, true
		t.names, t.digests = append(t.names, name), append(t.digests, digest)
	}
	if len(t.names) == 0 { // a file that is just being written, perhaps
		return nil, fmt.Errorf("%w: %s: no token in it", ErrMaterial, path)
	}
	return t, nil
}

// lookup returns the name of a token. How long it takes tells nothing of which
// tokens there are: digests are compared, all of them, each in constant time.
func (t *tokens) lookup(digest [sha256.Size]byte) (name string, ok bool) {
	found := -1
	for i := range t.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], t.digests[i][:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return t.names[found], true
}

// ownToken reads a client's file: the token alone, or one line NAME TOKEN.
func ownToken(path string, content []byte) (string, error) {
	var found []string
	for line := range strings.Lines(string(content)) {
		if f := strings.Fields(line); len(f) > 0 && f[0][0] != '#' {
			found = append(found, f[len(f)-1])
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%w: %s: %d tokens, want one", ErrMaterial, path, len(found))
	}
	if err := checkToken(found[0]); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrMaterial, path, err)
	}
	return found[0], nil
}

func checkToken(s string) error {
	if len(s) < MinToken || len(s) > MaxToken {
		return fmt.Errorf("a token of %d characters, want %d to %d", len(s), MinToken, MaxToken)
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("a token with a character that is not printable ASCII")
		}
	}
	return nil
}
