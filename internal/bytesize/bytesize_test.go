package bytesize

import (
	"errors"
	"testing"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "65536": 65536, "64KiB": 65536, "64K": 65536, "64kB": 64000, "64KB": 64000, "1.5MiB": 3 << 19,
		"2 MB": 2e6, "1GiB": 1 << 30, "7B": 7, "1T": 1 << 40,
	} {
		var s Bytes
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q is %d, %v; want %d", text, s, err, want)
		}
		var again Bytes
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%d prints %q, which reads %d, %v", s, s, again, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "64QiB", "1e30", "KiB", "9999999TiB", "NaN", "Inf"} {
		if err := new(Bytes).UnmarshalText([]byte(text)); !errors.Is(err, ErrSize) {
			t.Errorf("%q: %v, want ErrSize", text, err)
		}
	}
}
