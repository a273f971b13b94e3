package file

import (
	"cmp"
	"errors"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/rmatail/rmatail/auth"
)

// ParseAccess reads the rules of a node: who may do what, and whose streams lie in
// memory of their own. deploy/access.example.yaml has every key. Errors are Errors,
// and match cluster.ErrInvalid; path is for messages.
func ParseAccess(path string, data []byte) (*auth.Rules, error) {
	d := &decoder{path: path, at: map[string]*token.Position{}}
	var tenants []auth.Tenant
	var rules []auth.Rule
	if root := d.document(data); root != nil {
		d.mapping(value{root, ""}, []key{
			{"tenants", func(v value) { d.list(v, func(v value) { tenants = append(tenants, d.tenant(v)) }) }},
			{"identities", func(v value) { d.list(v, func(v value) { rules = append(rules, d.rule(v)) }) }},
		}, "identities")
	}
	var r *auth.Rules
	if len(d.errors) == 0 {
		var mistakes auth.Mistakes
		var err error
		if r, err = auth.NewRules(tenants, rules); errors.As(err, &mistakes) {
			for _, m := range mistakes {
				d.failOnce(m.Field, "%s", m.Text)
			}
		} else if err != nil {
			d.fail(nil, "", "%v", err)
		}
	}
	if len(d.errors) > 0 {
		slices.SortStableFunc(d.errors, func(a, b *Error) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, d.errors
	}
	return r, nil
}

func (d *decoder) tenant(v value) (t auth.Tenant) {
	d.mapping(v, []key{
		{"name", d.text(&t.Name)},
		{"streams", d.patterns(&t.Streams)},
		{"arena", d.size(&t.Arena)},
	}, "name", "streams")
	return t
}

func (d *decoder) rule(v value) (r auth.Rule) {
	var id, role string
	d.mapping(v, []key{
		{"id", d.text(&id)},
		{"role", d.choice(&role, "client", "producer", "admin")},
		{"append", d.patterns(&r.Append)},
		{"read", d.patterns(&r.Read)},
		{"tenant", d.text(&r.Tenant)},
	}, "id")
	r.Identity = auth.Identity(id)
	if role != "" {
		r.Role, _ = auth.ParseRole(role) // choice lets nothing else through
	}
	return r
}

// patterns reads one pattern of streams, or a list.
func (d *decoder) patterns(to *auth.Patterns) func(value) {
	return func(v value) {
		one := func(v value) {
			if s, ok := d.scalar(v); ok {
				*to = append(*to, auth.Pattern(s))
			}
		}
		if v.Type() == ast.SequenceType {
			d.list(v, one)
			return
		}
		one(v)
	}
}
