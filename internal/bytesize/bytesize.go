// Package bytesize reads and prints numbers of bytes as people write them: on the
// command line and in a cluster file.
package bytesize

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrSize is returned when a text is no number of bytes.
var ErrSize = errors.New("size")

// Bytes is a number of bytes, 0 to 2^62. Its text is 65536, 64KiB, 64K (the same),
// 64kB (64,000) or 1.5MiB.
type Bytes int64

type unit struct {
	suffix string
	bytes  int64
}

// units are those that are read; the longer suffix comes before one that ends it.
func units() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
		{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1},
	}
}

// UnmarshalText reads a size. Errors match ErrSize.
func (b *Bytes) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	for _, u := range units() {
		number, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0 && v*float64(u.bytes) < 1<<62) {
			break
		}
		*b = Bytes(v * float64(u.bytes))
		return nil
	}
	return fmt.Errorf("%w %.80q, want bytes such as 65536, 64KiB or 1.5MB", ErrSize, t)
}

// String prints a size so that it can be read back: exact, in the largest unit of
// 1,024s that fits.
func (b Bytes) String() string {
	for _, u := range []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if int64(b) >= u.bytes && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
