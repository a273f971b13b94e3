package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rmatail/rmatail/auth"
)

func TestAuth(t *testing.T) {
	for text, want := range map[string]auth.Settings{
		"":             {},
		"auth: none\n": {},
		"auth:\n  tls: {ca: /a, cert: /c, key: /k, name: node}\n  token: /t\n  tokens: /ts\n  access: /r\n": {
			CA: "/a", Cert: "/c", Key: "/k", Name: "node", Token: "/t", Tokens: "/ts", Access: "/r"},
		"auth: {tls: {ca: system, cert: /c, key: /k}}\n":          {CA: "system", Cert: "/c", Key: "/k"},
		"auth: {token: /t, tokens: /ts, plain_token: true}\n":     {Token: "/t", Tokens: "/ts", Plain: auth.PlainAllowed},
		"auth: {tls: {ca: /a, cert: /c, key: /k, revoked: /r}}\n": {CA: "/a", Cert: "/c", Key: "/k", Revoked: "/r"},
		"auth: {token: /t, tokens: /ts, plain_token: false}\n":    {Token: "/t", Tokens: "/ts"},
	} {
		c, err := Parse("f", []byte(good+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if c.Auth != want {
			t.Errorf("%s: %+v, want %+v", text, c.Auth, want)
		}
	}
}

// Which files there are does not change while processes run.
func TestRealAuthNeedsARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(good+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write("auth: {token: /t, tokens: /ts}\n")
	if err := s.Reload(); !errors.Is(err, ErrRestart) || s.Current().Auth != (auth.Settings{}) {
		t.Errorf("reload: %v; auth %+v", err, s.Current().Auth)
	}
}
