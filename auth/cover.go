package auth

import (
	"reflect"
	"slices"
	"strings"
)

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

// UsersLost returns the tenants whose memory users of the host may read by r, and by
// next not any more, or not as before. Users have no connection by which a node
// would notice.
func (r *Rules) UsersLost(next *Rules) (tenants []string) {
	if r == nil {
		return nil
	}
	for id, g := range r.grants {
		if !strings.HasPrefix(string(id), "uid:") || !r.Covers(g) {
			continue
		}
		if now, ok := next.Grant(id); !ok || !reflect.DeepEqual(now, g) || !next.Covers(now) {
			tenants = append(tenants, g.Tenant)
		}
	}
	return tenants
}
