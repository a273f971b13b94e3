package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	secretA = "aaaaaaaaaaaaaaaa-first"
	secretB = "bbbbbbbbbbbbbbbb-second"
)

func TestTokens(t *testing.T) {
	ts, err := parseTokens("f", []byte("# who may\n\n a "+secretA+"\r\nb\t"+secretB))
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]string{secretA: "a", secretB: "b", secretA + "x": "", secretA[:len(secretA)-1]: "", "": "", "a": ""} {
		if name, ok := ts.lookup(sha256.Sum256([]byte(secret))); name != want || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", secret, name, ok, want)
		}
	}
}

// Mistakes name a line and never show what stands there.
func TestMistakesOfTokens(t *testing.T) {
	for text, want := range map[string]string{
		"a " + secretA + "\nb":                  "f:2: 1 words",
		"a " + secretA + " x":                   "f:1: 3 words",
		"a " + secretA[:15]:                     "f:1: a token of 15 characters",
		"a " + strings.Repeat("x", 256):         "f:1: a token of 256 characters",
		"a " + secretA + "\nb " + secretA:       "f:2: a token that another name has",
		"a " + secretA + "\na " + secretB:       "f:2: a name for the second time",
		"a " + secretA + "\x01":                 "f:1: a token with a character",
		strings.Repeat("n", 65) + " " + secretA: "f:1: a name of 65 bytes",
		"# none\n":                              "f: no token in it",
		"\n\n" + secretA + "\n":                 "f:3: 1 words",
	} {
		_, err := parseTokens("f", []byte(text))
		if !errors.Is(err, ErrMaterial) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), secretA[:15]) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		secretA: secretA, "# mine\na " + secretA + "\n": secretA, "": "", "a\n" + secretA: "", "short": "",
	} {
		if got, err := ownToken("f", []byte(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte("a " + secretA + "\nb " + secretB))
	f.Add([]byte("#\n\x00 \xff"))
	f.Fuzz(func(t *testing.T, content []byte) {
		ts, err := parseTokens("f", content)
		if err != nil {
			return
		}
		for i := range ts.names {
			if ts.names[i] == "" {
				t.Error("a token without a name")
			}
		}
		if _, ok := ts.lookup(sha256.Sum256(nil)); ok {
			t.Error("no token is one")
		}
	})
}
