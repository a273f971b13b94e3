package auth

import (
	"fmt"
	"strings"
)

// Pattern names streams: one stream, a prefix with '*' behind it, or "*".
type Pattern string

// Matches says whether a stream is one of those.
func (p Pattern) Matches(stream string) bool {
	if prefix, all := strings.CutSuffix(string(p), "*"); all {
		return strings.HasPrefix(stream, prefix)
	}
	return string(p) == stream
}

// Covers says whether each stream that q names is one that p names.
func (p Pattern) Covers(q Pattern) bool {
	prefix, all := strings.CutSuffix(string(p), "*")
	if !all {
		return p == q
	}
	return strings.HasPrefix(strings.TrimSuffix(string(q), "*"), prefix)
}

// overlaps says whether a stream can be one of both.
func (p Pattern) overlaps(q Pattern) bool { return p.Covers(q) || q.Covers(p) }

// check reports what is no pattern.
func (p Pattern) check() error {
	s := strings.TrimSuffix(string(p), "*")
	if p == "" || strings.ContainsAny(s, "*/") {
		return fmt.Errorf("%.80q; want a stream's name, a prefix with * behind it, or *", string(p))
	}
	return nil
}

// Patterns are several.
type Patterns []Pattern

// Match says whether one of them names a stream.
func (ps Patterns) Match(stream string) bool {
	for _, p := range ps {
		if p.Matches(stream) {
			return true
		}
	}
	return false
}
