package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/cluster"
)

const goodAccess = `tenants:
  - {name: a, streams: ["a-*", alpha], arena: 64MiB}
  - name: b
    streams: b-*
identities:
  - {id: "uri:spiffe://site/node", role: producer, append: "*", read: "*"}
  - {id: "token:alice", read: "a-*", tenant: a}
  - {id: "uid:1000", role: admin}
`

func TestAccess(t *testing.T) {
	r, err := ParseAccess("f", []byte(goodAccess))
	if err != nil {
		t.Fatal(err)
	}
	if ts := r.Tenants(); len(ts) != 2 || ts[0].Name != "a" || ts[0].Arena != 64<<20 || !slices.Equal(ts[0].Streams, auth.Patterns{"a-*", "alpha"}) || !slices.Equal(ts[1].Streams, auth.Patterns{"b-*"}) || ts[1].Arena != 0 {
		t.Errorf("tenants %+v", ts)
	}
	for id, want := range map[auth.Identity]auth.Grant{
		"uri:spiffe://site/node": {Role: auth.RoleProducer, Append: auth.Patterns{"*"}, Read: auth.Patterns{"*"}},
		"token:alice":            {Read: auth.Patterns{"a-*"}, Tenant: "a"},
		"uid:1000":               {Role: auth.RoleAdmin},
	} {
		g, ok := r.Grant(id)
		if !ok || g.Role != want.Role || g.Tenant != want.Tenant || !slices.Equal(g.Append, want.Append) || !slices.Equal(g.Read, want.Read) {
			t.Errorf("%s: %+v, %v; want %+v", id, g, ok, want)
		}
	}
}

func TestMistakesOfAccess(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       {"f:1:1: empty"},
		"tenants: []\n":                          {"f:1:1: identities: missing"},
		"identities: [{role: admin}]\n":          {"f:1:15: identities[0].id: missing"},
		"identities: [{id: bob}]\n":              {`f:1:19: identities[0].id: "bob"; want uri:URI, cn:NAME, token:NAME, uid:N or anonymous`},
		"identities: [{id: cn:a, role: root}]\n": {`f:1:31: identities[0].role: "root"; want client, producer or admin`},
		"identities: [{id: cn:a, read: [x, y/1]}]\n":                                  {`f:1:35: identities[0].read[1]: "y/1"; want a stream's name`},
		"identities: [{id: cn:a, tenant: t}]\n":                                       {`f:1:33: identities[0].tenant: no tenant is called "t"`},
		"identities: [{id: cn:a}, {id: cn:a}]\n":                                      {`f:1:31: identities[1].id: "cn:a" for the second time`},
		"tenants: [{name: a, streams: x*}, {name: b, streams: xy}]\nidentities: []\n": {`f:1:54: tenants[1].streams[0]: "xy" overlaps with "x*" of tenant "a"`},
		"tenants: [{name: a, streams: x*}]\nidentities: [{id: cn:a, read: xy}]\n":     {"f:2:31: identities[0].read: streams outside of the memory"},
		"identities: [{id: cn:a, rights: all}]\n":                                     {"f:1:25: identities[0].rights: no such key; there are id, role, append, read, tenant"},
	} {
		_, err := ParseAccess("f", []byte(text))
		var all Errors
		if !errors.Is(err, cluster.ErrInvalid) || !errors.As(err, &all) || len(all) != len(want) {
			t.Errorf("%q: %v, want %q", text, err, want)
			continue
		}
		for i, e := range all {
			if !strings.HasPrefix(e.Error(), want[i]) {
				t.Errorf("%q:\n%v, want\n%v", text, e, want[i])
			}
		}
	}
}

// The example is right, and has every key.
func TestExampleOfAccess(t *testing.T) {
	path := filepath.Join("..", "..", "..", "deploy", "access.example.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseAccess(path, data); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"tenants:", "name:", "streams:", "arena:", "identities:", "id:", "role:", "append:", "read:", "tenant:"} {
		if !strings.Contains(string(data), key) {
			t.Errorf("the example lacks %s", key)
		}
	}
}

func FuzzAccess(f *testing.F) {
	f.Add([]byte(goodAccess))
	f.Add([]byte("identities: [{id: cn:a, read: [x, '*']}]\ntenants: [{name: a, streams: [x]}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseAccess("f", data)
		if err != nil {
			return
		}
		// No stream is two tenants'.
		for _, a := range r.Tenants() {
			for _, p := range a.Streams {
				if name := strings.TrimSuffix(string(p), "*"); r.TenantOf(name) != a.Name && p.Matches(name) {
					t.Errorf("%q of tenant %q is tenant %q's", name, a.Name, r.TenantOf(name))
				}
			}
		}
	})
}
