package auth

import "slices"

// Covers says whether a grant lets all be read that lies in its tenant's memory: who
// reads memory one-sidedly reads any part of it. The memory of the streams that are
// no tenant's takes "*".
func (r *Rules) Covers(g Grant) bool {
	if r == nil {
		return true
	}
	if g.Tenant == "" {
		return slices.Contains(g.Read, "*")
	}
	i := slices.IndexFunc(r.tenants, func(t Tenant) bool { return t.Name == g.Tenant })
	if i < 0 {
		return false
	}
	for _, p := range r.tenants[i].Streams {
		if !slices.ContainsFunc(g.Read, func(q Pattern) bool { return q.Covers(p) }) {
			return false
		}
	}
	return true
}
