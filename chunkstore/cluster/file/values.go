package file

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/internal/bytesize"
)

// Each of these returns what sets a key's value, or reports it and leaves what to
// points to as it was.

func (d *decoder) text(to *string) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		if ok && s == "" {
			d.wrong(v, "empty; write a value, or remove the key for its default")
			return
		}
		if ok {
			*to = s
		}
	}
}

// number reads a number of at least 1.
func number[T int | uint32](d *decoder, to *T) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		if !ok {
			return
		}
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			d.wrong(v, "%.80q; want a whole number of 1 to %d", s, math.MaxInt32)
			return
		}
		*to = T(n)
	}
}

func (d *decoder) boolean(to *bool) func(value) {
	return func(v value) {
		switch s, ok := d.scalar(v); {
		case !ok:
		case s == "true", s == "false":
			*to = s == "true"
		default:
			d.wrong(v, "%.80q; want true or false", s)
		}
	}
}

func (d *decoder) choice(to *string, of ...string) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		if ok && !slices.Contains(of, s) {
			d.wrong(v, "%.80q; want %s or %s", s, strings.Join(of[:len(of)-1], ", "), of[len(of)-1])
			return
		}
		if ok {
			*to = s
		}
	}
}

func (d *decoder) duration(to *time.Duration, example string) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		if !ok {
			return
		}
		t, err := time.ParseDuration(s)
		if err != nil || t == 0 {
			d.wrong(v, "%.80q; want a time with its unit, such as %s", s, example)
			return
		}
		*to = t
	}
}

func (d *decoder) size(to *int64) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		if !ok {
			return
		}
		var b bytesize.Bytes
		if err := b.UnmarshalText([]byte(s)); err != nil {
			d.wrong(v, "%.80q; want bytes, such as 64MiB", s)
			return
		}
		*to = int64(b)
	}
}

func (d *decoder) roles(to *cluster.Roles) func(value) {
	return func(v value) {
		var all cluster.Roles
		wrong := false
		one := func(v value) {
			var r cluster.Roles
			switch s, ok := d.scalar(v); {
			case ok && s == "data":
				r = cluster.Data
			case ok && s == "metadata":
				r = cluster.Metadata
			case ok:
				d.wrong(v, "%.80q; want data or metadata", s)
			}
			if r == 0 {
				wrong = true
			}
			all |= r
		}
		if v.Type() == ast.SequenceType {
			d.list(v, one)
		} else {
			one(v)
		}
		if !wrong {
			*to = all // nothing, of an empty list, is a mistake of the description
		}
	}
}

// compiledIn accepts one number alone, for the settings that the arena's layout
// fixes. They stand in a file so that one written for another layout is refused.
func (d *decoder) compiledIn(want int64, what string) func(value) {
	return func(v value) {
		s, ok := d.scalar(v)
		var got bytesize.Bytes
		if ok && (got.UnmarshalText([]byte(s)) != nil || int64(got) != want) {
			d.wrong(v, "%.80q; this build has %d %s, fixed when it is compiled (chunkstore/layout): want %d, or no such key", s, want, what, want)
		}
	}
}
