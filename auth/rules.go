package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Role says what a peer is to a node, beyond the streams that it names.
type Role uint8

const (
	// RoleClient appends and reads.
	RoleClient Role = iota
	// RoleProducer writes caches too, as the cluster's nodes do and producers that
	// own their files: puts, publications and leases of the streams that it may
	// append to.
	RoleProducer
	// RoleAdmin may see the node's statistics besides.
	RoleAdmin
)

// ParseRole reads client, producer or admin.
func ParseRole(s string) (Role, error) {
	for r := RoleClient; r <= RoleAdmin; r++ {
		if r.String() == s {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%w: role %.80q, want client, producer or admin", ErrSettings, s)
}

func (r Role) String() string { return [...]string{"client", "producer", "admin"}[r] }

// Grant is what an identity may do.
type Grant struct {
	Role Role
	// Append and Read are the streams that it may append to and read.
	Append, Read Patterns
	// Tenant is whose memory it reads; empty: that of the streams that are no
	// tenant's.
	Tenant string
}

// Everything is the grant of everybody where there are no rules.
func Everything() Grant {
	return Grant{Role: RoleAdmin, Append: Patterns{"*"}, Read: Patterns{"*"}}
}

// Rule gives an identity its grant.
type Rule struct {
	Identity Identity
	Grant
}

// Tenant is a part of the streams whose bytes lie in memory of their own.
type Tenant struct {
	Name    string
	Streams Patterns
	// Arena is the size of its memory in bytes; 0: as much as the node's other one.
	Arena int64
}

// Rules are what a node goes by. They never change.
type Rules struct {
	tenants []Tenant
	grants  map[Identity]Grant
}

// Mistake is one thing that is wrong with rules; Field is where the value stands,
// such as identities[2].read[0].
type Mistake struct{ Field, Text string }

// Mistakes are all of them. They match ErrMaterial.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, k := range m {
		lines[i] = k.Field + ": " + k.Text
	}
	return ErrMaterial.Error() + ": " + strings.Join(lines, "; ")
}

// Is makes Mistakes match ErrMaterial.
func (m Mistakes) Is(target error) bool { return target == ErrMaterial }

// NewRules checks rules. Errors are Mistakes.
func NewRules(tenants []Tenant, rules []Rule) (*Rules, error) {
	var m Mistakes
	add := func(field, format string, args ...any) {
		m = append(m, Mistake{field, fmt.Sprintf(format, args...)})
	}
	patterns := func(field string, ps Patterns) {
		for i, p := range ps {
			if err := p.check(); err != nil {
				add(fmt.Sprintf("%s[%d]", field, i), "%v", err)
			}
		}
	}
	for i, t := range tenants {
		field := fmt.Sprintf("tenants[%d]", i)
		if t.Name == "" || len(t.Name) > maxTokenName || strings.ContainsAny(t.Name, "/ \t") {
			add(field+".name", "%.80q; want 1 to %d characters without '/' and spaces", t.Name, maxTokenName)
		}
		if slices.ContainsFunc(tenants[:i], func(o Tenant) bool { return o.Name == t.Name }) {
			add(field+".name", "%.80q for the second time", t.Name)
		}
		if len(t.Streams) == 0 {
			add(field+".streams", "none; want the streams that are the tenant's")
		}
		patterns(field+".streams", t.Streams)
		for _, other := range tenants[:i] {
			for k, p := range t.Streams {
				for _, q := range other.Streams {
					if p.overlaps(q) {
						add(fmt.Sprintf("%s.streams[%d]", field, k), "%q overlaps with %q of tenant %q; a stream has one tenant", p, q, other.Name)
					}
				}
			}
		}
	}
	r := &Rules{tenants: slices.Clone(tenants), grants: make(map[Identity]Grant, len(rules))}
	for i, rule := range rules {
		field := fmt.Sprintf("identities[%d]", i)
		if !rule.Identity.valid() {
			add(field+".id", "%.80q; want uri:URI, cn:NAME, token:NAME, uid:N or anonymous", string(rule.Identity))
		}
		if _, twice := r.grants[rule.Identity]; twice {
			add(field+".id", "%.80q for the second time", string(rule.Identity))
		}
		patterns(field+".append", rule.Append)
		patterns(field+".read", rule.Read)
		if rule.Tenant != "" && !slices.ContainsFunc(tenants, func(t Tenant) bool { return t.Name == rule.Tenant }) {
			add(field+".tenant", "no tenant is called %.80q", rule.Tenant)
		}
		r.grants[rule.Identity] = rule.Grant
	}
	if m != nil {
		return nil, m
	}
	for i, rule := range rules {
		if rule.Role == RoleClient && !r.within(rule) {
			add(fmt.Sprintf("identities[%d].read", i), "streams outside of the memory that it reads, that of tenant %q; a consumer reads one tenant's streams, or those that are no tenant's", rule.Tenant)
		}
	}
	if m != nil {
		return nil, m
	}
	return r, nil
}

// within says whether all that a rule lets be read lies in its tenant's memory.
func (r *Rules) within(rule Rule) bool {
	for _, p := range rule.Read {
		if rule.Tenant == "" {
			// "*" stands for what is left: the memory holds no tenant's streams.
			for _, t := range r.tenants {
				if p != "*" && slices.ContainsFunc(t.Streams, p.overlaps) {
					return false
				}
			}
			continue
		}
		i := slices.IndexFunc(r.tenants, func(t Tenant) bool { return t.Name == rule.Tenant })
		if p != "*" && !slices.ContainsFunc(r.tenants[i].Streams, func(q Pattern) bool { return q.Covers(p) }) {
			return false
		}
	}
	return true
}

func (id Identity) valid() bool {
	kind, name, ok := strings.Cut(string(id), ":")
	if id == Anonymous {
		return true
	}
	return ok && name != "" && len(id) <= maxIdentity && slices.Contains([]string{"uri", "cn", "token", "uid"}, kind)
}

// Grant returns what an identity may do; false: nothing.
func (r *Rules) Grant(id Identity) (Grant, bool) {
	if r == nil {
		return Everything(), true
	}
	g, ok := r.grants[id]
	return g, ok
}

// Tenants are the tenants there are.
func (r *Rules) Tenants() []Tenant {
	if r == nil {
		return nil
	}
	return r.tenants
}

// TenantOf returns the name of a stream's tenant; empty: none.
func (r *Rules) TenantOf(stream string) string {
	if r == nil {
		return ""
	}
	for _, t := range r.tenants {
		if t.Streams.Match(stream) {
			return t.Name
		}
	}
	return ""
}
