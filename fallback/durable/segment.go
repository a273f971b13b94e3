package durable

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	segmentTime   = "20060102T150405.000000000Z"
	segmentSuffix = ".log"
	segmentDigits = 20
	segmentLen    = len(segmentTime) + 1 + segmentDigits + len(segmentSuffix)
)

// segment is one content file. It holds [base, base+size), where size is known
// to the writer only: readers take the next base, or the length.
type segment struct {
	name string
	base uint64
	size uint64
}

func (s segment) end() uint64 { return s.base + s.size }

// created returns the creation time in the name.
func (s segment) created() time.Time {
	t, _ := time.Parse(segmentTime, s.name[:len(segmentTime)])
	return t
}

// segmentName names the segment that begins at base.
func segmentName(created time.Time, base uint64) string {
	return fmt.Sprintf("%s-%0*d%s", created.UTC().Format(segmentTime), segmentDigits, base, segmentSuffix)
}

// parseSegment reads a name that segmentName wrote; anything else is a foreign
// file.
func parseSegment(name string) (segment, bool) {
	if len(name) != segmentLen || name[len(segmentTime)] != '-' || !strings.HasSuffix(name, segmentSuffix) {
		return segment{}, false
	}
	stamp, digits := name[:len(segmentTime)], name[len(segmentTime)+1:segmentLen-len(segmentSuffix)]
	t, err := time.Parse(segmentTime, stamp)
	if err != nil || t.Format(segmentTime) != stamp {
		return segment{}, false
	}
	if strings.Trim(digits, "0123456789") != "" {
		return segment{}, false
	}
	base, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return segment{}, false
	}
	return segment{name: name, base: base}, true
}

// parseSegments picks the segments out of a directory listing, in name order.
func parseSegments(names []string) []segment {
	var segs []segment
	for _, n := range names {
		if s, ok := parseSegment(n); ok {
			segs = append(segs, s)
		}
	}
	slices.SortFunc(segs, func(a, b segment) int { return cmp.Compare(a.name, b.name) })
	return segs
}

// checkBases finds names whose order is not position order.
func checkBases(path string, segs []segment) error {
	for i := 1; i < len(segs); i++ {
		if segs[i].base < segs[i-1].base {
			return &CorruptError{filepath.Join(path, segs[i].name), "segment begins before its predecessor " + segs[i-1].name, segs[i-1].base, segs[i].base}
		}
	}
	return nil
}

// checkSizes finds gaps and overlaps.
func checkSizes(path string, segs []segment) error {
	for i := 1; i < len(segs); i++ {
		if want := segs[i-1].end(); segs[i].base != want {
			what := "gap after segment "
			if segs[i].base < want {
				what = "overlap with segment "
			}
			return &CorruptError{filepath.Join(path, segs[i].name), what + segs[i-1].name, want, segs[i].base}
		}
	}
	return nil
}

// locate returns the index of the segment that holds pos, which is at or above
// the first base. Of several segments with that base, the last is meant: the
// others are empty.
func locate(segs []segment, pos uint64) int {
	i, _ := slices.BinarySearchFunc(segs, pos, func(s segment, pos uint64) int {
		if s.base <= pos {
			return -1
		}
		return 1
	})
	return i - 1
}
