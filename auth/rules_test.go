package auth

import (
	"errors"
	"slices"
	"testing"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		p      Pattern
		stream string
		want   bool
	}{
		{"logs", "logs", true}, {"logs", "logs2", false}, {"logs", "log", false}, {"logs*", "logs2", true}, {"logs*", "logs", true}, {"logs*", "log", false},
		{"*", "x", true}, {"", "x", false}, {"", "", true},
	} {
		if got := c.p.Matches(c.stream); got != c.want {
			t.Errorf("%q matches %q: %v", c.p, c.stream, got)
		}
	}
	for _, c := range []struct {
		p, q         Pattern
		covers, over bool
	}{
		{"*", "a", true, true}, {"*", "a*", true, true}, {"a*", "*", false, true}, {"a*", "ab", true, true}, {"a*", "ab*", true, true}, {"ab*", "a*", false, true},
		{"a", "a", true, true}, {"a", "a*", false, true}, {"a*", "b*", false, false}, {"a", "b", false, false},
	} {
		if c.p.Covers(c.q) != c.covers || c.p.overlaps(c.q) != c.over {
			t.Errorf("%q covers %q: %v, overlaps: %v", c.p, c.q, c.p.Covers(c.q), c.p.overlaps(c.q))
		}
	}
}

func TestRules(t *testing.T) {
	r, err := NewRules(
		[]Tenant{{Name: "a", Streams: Patterns{"a-*", "alpha"}}, {Name: "b", Streams: Patterns{"b-*"}}},
		[]Rule{
			{"cn:node", Grant{Role: RoleProducer, Append: Patterns{"*"}, Read: Patterns{"*"}}},
			{"token:a", Grant{Read: Patterns{"a-logs*", "alpha"}, Tenant: "a"}},
			{"token:open", Grant{Read: Patterns{"public"}}},
			{"token:all", Grant{Read: Patterns{"*"}}},
		})
	if err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]string{"a-x": "a", "alpha": "a", "alpha2": "", "b-": "b", "c": ""} {
		if got := r.TenantOf(stream); got != want {
			t.Errorf("%q belongs to %q, want %q", stream, got, want)
		}
	}
	if g, ok := r.Grant("token:a"); !ok || g.Tenant != "a" || !g.Read.Match("a-logs1") || g.Read.Match("a-x") || g.Append.Match("a-logs1") {
		t.Errorf("grant %+v, %v", g, ok)
	}
	if _, ok := r.Grant("cn:a"); ok {
		t.Error("who has no rule has a grant")
	}
	if g, ok := (*Rules)(nil).Grant("cn:x"); !ok || !g.Append.Match("x") || g.Role != RoleAdmin {
		t.Error("without rules not everybody may do everything")
	}
}

func TestMistakesOfRules(t *testing.T) {
	for _, c := range []struct {
		tenants []Tenant
		rules   []Rule
		want    []string // fields
	}{
		{[]Tenant{{}}, nil, []string{"tenants[0].name", "tenants[0].streams"}},
		{[]Tenant{{Name: "a", Streams: Patterns{"x/1", "a*b"}}}, nil, []string{"tenants[0].streams[0]", "tenants[0].streams[1]"}},
		{[]Tenant{{Name: "a", Streams: Patterns{"x*"}}, {Name: "a", Streams: Patterns{"xy"}}}, nil, []string{"tenants[1].name", "tenants[1].streams[0]"}},
		{nil, []Rule{{"bob", Grant{}}, {"cn:", Grant{}}, {"cn:a", Grant{Tenant: "z"}}, {"cn:a", Grant{}}}, []string{"identities[0].id", "identities[1].id", "identities[2].tenant", "identities[3].id"}},
		{nil, []Rule{{"cn:a", Grant{Read: Patterns{""}, Append: Patterns{"**"}}}}, []string{"identities[0].append[0]", "identities[0].read[0]"}},
		// A consumer that would read what is not in the memory it gets.
		{[]Tenant{{Name: "a", Streams: Patterns{"a-*"}}}, []Rule{{"cn:x", Grant{Read: Patterns{"a-1"}}}, {"cn:y", Grant{Tenant: "a", Read: Patterns{"b"}}}}, []string{"identities[0].read", "identities[1].read"}},
	} {
		_, err := NewRules(c.tenants, c.rules)
		var m Mistakes
		if !errors.As(err, &m) || !errors.Is(err, ErrMaterial) {
			t.Errorf("%+v %+v: %v", c.tenants, c.rules, err)
			continue
		}
		var got []string
		for _, k := range m {
			got = append(got, k.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("mistakes %v, want those of %v", err, c.want)
		}
	}
}
