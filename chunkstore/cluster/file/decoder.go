package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// decoder walks a syntax tree and gathers mistakes.
type decoder struct {
	path   string
	errors Errors
	at     map[string]*token.Position // of the values, by field
}

// value is a node of the tree, and its field.
type value struct {
	ast.Node
	field string
}

// key is a known key of a mapping.
type key struct {
	name string
	set  func(v value)
}

func (d *decoder) fail(at *token.Position, field, format string, args ...any) {
	e := &Error{Path: d.path, Line: 1, Column: 1, Field: field, Text: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Line, e.Column = at.Line, at.Column
	}
	d.errors = append(d.errors, e)
}

// wrong reports a value.
func (d *decoder) wrong(v value, format string, args ...any) {
	d.fail(v.GetToken().Position, v.field, format, args...)
}

// document returns the one document of a file; nil, and a mistake, if there is none.
func (d *decoder) document(data []byte) ast.Node {
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at *token.Position
		text := err.Error()
		var y yaml.Error
		if errors.As(err, &y) {
			text = y.GetMessage()
			if t := y.GetToken(); t != nil {
				at = t.Position
			}
		}
		d.fail(at, "", "no YAML: %s", text)
		return nil
	}
	var bodies []ast.Node
	for _, doc := range f.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		d.fail(nil, "", "empty; want at least nodes and store")
		return nil
	case 1:
		return bodies[0]
	}
	d.fail(bodies[1].GetToken().Position, "", "a second YAML document; want one in a file")
	return nil
}

// mapping hands each value of a mapping to its key. Each of required must be there.
func (d *decoder) mapping(v value, keys []key, required ...string) {
	m, ok := v.Node.(ast.MapNode)
	if !ok {
		d.wrong(v, "%s; want keys with values: %s", kind(v), names(keys))
		return
	}
	where := func(name string) string {
		if v.field == "" {
			return name
		}
		return v.field + "." + name
	}
	seen := map[string]*token.Position{}
	for it := m.MapRange(); it.Next(); {
		t := it.Key().GetToken()
		name := t.Value
		if len(seen) == 0 {
			d.at[v.field] = t.Position // a mapping begins at its first key
		}
		if first := seen[name]; first != nil {
			d.fail(t.Position, where(name), "a second time; the first one is in line %d", first.Line)
			continue
		}
		seen[name] = t.Position
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		switch e := (value{it.Value(), where(name)}); {
		case i < 0:
			d.fail(t.Position, where(name), "no such key%s; there are %s", suggestion(name, keys), names(keys))
		case e.Type() == ast.NullType:
			d.fail(t.Position, e.field, "no value; write one, or remove the key for its default")
		default:
			d.at[e.field] = e.GetToken().Position
			keys[i].set(e)
		}
	}
	for _, name := range required {
		if seen[name] == nil {
			d.fail(d.place(v.field), where(name), "missing")
		}
	}
}

// list hands each element of a list to each.
func (d *decoder) list(v value, each func(v value)) {
	s, ok := v.Node.(*ast.SequenceNode)
	if !ok {
		d.wrong(v, "%s; want a list", kind(v))
		return
	}
	for i, n := range s.Values {
		e := value{n, fmt.Sprintf("%s[%d]", v.field, i)}
		d.at[e.field] = n.GetToken().Position
		each(e)
	}
}

// scalar returns the text of a value: 01 stays 01, and off is no boolean.
func (d *decoder) scalar(v value) (text string, ok bool) {
	switch n := v.Node.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	d.wrong(v, "%s; want one value", kind(v))
	return "", false
}

// scalarOf is scalar without a mistake.
func (d *decoder) scalarOf(v value) (text string, ok bool) {
	if n, is := v.Node.(*ast.StringNode); is {
		return n.GetToken().Value, true
	}
	return "", false
}

func isMapping(v value) bool {
	_, ok := v.Node.(ast.MapNode)
	return ok
}

// place is where a field stands, or else where what contains it does; nil if there
// is nothing.
func (d *decoder) place(field string) *token.Position {
	for d.at[field] == nil && field != "" {
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return d.at[field]
}

// kind says what a value is, when it is not what it should be.
func kind(v value) string {
	switch v.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "keys with values"
	case ast.SequenceType:
		return "a list"
	case ast.AnchorType, ast.AliasType, ast.TagType, ast.MergeKeyType:
		return "an anchor, alias or tag of YAML: write the value itself"
	case ast.LiteralType:
		return "a text of several lines"
	case ast.NullType:
		return "nothing"
	}
	return fmt.Sprintf("%.80q", v.GetToken().Value)
}

func names(keys []key) string {
	n := make([]string, len(keys))
	for i, k := range keys {
		n[i] = k.name
	}
	return strings.Join(n, ", ")
}

// suggestion names the key that was probably meant.
func suggestion(name string, keys []key) string {
	plain := func(s string) string { return strings.Map(letters, strings.ToLower(s)) }
	for _, k := range keys {
		a, b := plain(name), plain(k.name)
		if a == b || a+"s" == b || b+"s" == a || len(a) > 2 && (strings.HasPrefix(b, a) || strings.HasPrefix(a, b)) {
			return ", perhaps " + k.name
		}
	}
	return ""
}

func letters(r rune) rune {
	if r < 'a' || r > 'z' {
		return -1
	}
	return r
}
