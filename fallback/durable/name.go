package durable

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const maxStream = 128

// splitShard checks a shard name, "stream/N" or "stream/NNNN", and returns the
// names of its two directories. Only letters, digits, '.', '_' and '-' get
// through, a letter or digit first: no name leads out of the store, none is
// hidden, none has a separator.
func splitShard(s string) (stream, number string, err error) {
	stream, number, ok := strings.Cut(s, "/")
	if !ok {
		return "", "", badRequest("shard %.160q has no '/': want STREAM/NUMBER, such as logs/0000", s)
	}
	if !validStream(stream) {
		return "", "", badRequest("stream %.160q: want 1 to %d letters, digits, '.', '_' and '-', a letter or digit first", stream, maxStream)
	}
	if number == "" || len(number) > 10 || strings.Trim(number, "0123456789") != "" {
		return "", "", badRequest("shard number %.20q is not a decimal number", number)
	}
	if canonicalNumber(number) {
		return stream, number, nil
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return "", "", badRequest("shard number %s is above %d", number, uint32(1<<32-1))
	}
	return stream, fmt.Sprintf("%04d", n), nil
}

func validStream(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= maxStream
}

// canonicalNumber reports whether s is how this package names the directory of
// a shard: at least four digits, no leading zero beyond that, within 32 bits.
func canonicalNumber(s string) bool {
	if len(s) < 4 || len(s) > 10 || len(s) > 4 && s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return false
	}
	return len(s) < 10 || s <= "4294967295"
}

func shardPath(dir, stream, number string) string { return filepath.Join(dir, stream, number) }
