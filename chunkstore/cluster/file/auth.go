package file

import (
	"path/filepath"

	"github.com/rmatail/rmatail/auth"
)

// auth reads none, or what processes show each other.
func (d *decoder) auth(to *auth.Settings) func(value) {
	return func(v value) {
		if !isMapping(v) {
			if s, ok := d.scalar(v); ok && s != "none" {
				d.wrong(v, "%.80q; want none, or keys with values: tls, token, tokens, access, plain_token", s)
			}
			return
		}
		plain, before := false, len(d.errors)
		d.mapping(v, []key{
			{"tls", func(v value) {
				d.mapping(v, []key{
					{"ca", d.authority(&to.CA)},
					{"cert", d.absolute(&to.Cert)},
					{"key", d.absolute(&to.Key)},
					{"name", d.text(&to.Name)},
					{"revoked", d.absolute(&to.Revoked)},
				}, "ca", "cert", "key")
			}},
			{"token", d.absolute(&to.Token)},
			{"tokens", d.absolute(&to.Tokens)},
			{"access", d.absolute(&to.Access)},
			{"plain_token", d.boolean(&plain)},
		})
		if plain {
			to.Plain = auth.PlainAllowed
		}
		if len(d.errors) == before {
			d.authTogether(v.field, *to)
		}
	}
}

// authTogether checks what the settings mean together.
func (d *decoder) authTogether(field string, s auth.Settings) {
	sealed := s.CA != ""
	switch {
	case s == auth.Settings{}:
		d.failOnce(field, "nothing in it; want none, or tls, or token and tokens")
	case !sealed && (s.Token == "") != (s.Tokens == ""):
		d.failOnce(field, "token, the file that a process shows, and tokens, the file that nodes compare with, go together: nodes are clients of each other")
	case !sealed && s.Access != "" && s.Tokens == "":
		d.failOnce(field+".access", "rules, and nothing to know anybody by: want tls, or token and tokens")
	case sealed && s.Plain == auth.PlainAllowed:
		d.failOnce(field+".plain_token", "true, and there is TLS: remove it")
	}
}

func (d *decoder) absolute(to *string) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		if ok && !filepath.IsAbs(s) {
			d.wrong(v, "%.80q; want an absolute path, the same on every host", s)
			return
		}
		if ok {
			*to = s
		}
	}
}

func (d *decoder) authority(to *string) func(value) {
	path := d.absolute(to)
	return func(v value) {
		if s, ok := d.scalarOf(v); ok && s == auth.SystemCA {
			*to = s
			return
		}
		path(v)
	}
}
