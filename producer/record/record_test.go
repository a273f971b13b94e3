package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// cutAll cuts stream in pieces of the given sizes, over and over.
func cutAll(f Framing, pos uint64, limit int, stream []byte, sizes ...int) (recs []string, ends []uint64, c *Cutter, err error) {
	c = NewCutter(f, pos, limit)
	for i := 0; len(stream) > 0; i++ {
		n := min(max(sizes[i%len(sizes)], 1), len(stream))
		piece := bytes.Clone(stream[:n])
		for r, cerr := range c.Cut(pos, piece) {
			if cerr != nil {
				return recs, ends, c, cerr
			}
			recs, ends = append(recs, string(r.Data)), append(ends, r.End)
		}
		clear(piece) // it was borrowed
		stream, pos = stream[n:], pos+uint64(n)
	}
	return recs, ends, c, nil
}

func framed(t testing.TB, f Framing, recs ...string) (b []byte) {
	t.Helper()
	for _, r := range recs {
		var err error
		if b, err = f.Append(b, []byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestCutAcrossBorders(t *testing.T) {
	recs := []string{"one", "", "three, a longer one", strings.Repeat("x", 5000), "end"}
	for _, f := range []Framing{Lines, Delimited} {
		stream := framed(t, f, recs...)
		for _, size := range []int{1, 2, 3, 7, 100, 4096, len(stream)} {
			got, ends, c, err := cutAll(f, 1000, 0, stream, size)
			if err != nil || !slices.Equal(got, recs) || c.End() != nil {
				t.Errorf("%v in pieces of %d: %q, %v, %v", f, size, got, err, c.End())
			}
			if c.Position() != 1000+uint64(len(stream)) || ends[len(ends)-1] != c.Position() {
				t.Errorf("%v: ends at %d, want %d", f, c.Position(), 1000+len(stream))
			}
		}
	}
	got, _, _, err := cutAll(Raw, 0, 0, []byte("abcdef"), 4)
	if err != nil || !slices.Equal(got, []string{"abcd", "ef"}) {
		t.Errorf("raw: %q, %v", got, err)
	}
}

// The format, byte by byte.
func TestDelimitedGolden(t *testing.T) {
	for _, tc := range []struct{ rec, want string }{
		{"", "00" + "51537d52"},         // length 0, CRC32C of the byte 00
		{"a", "01" + "c4ff6e71" + "61"}, // CRC32C of 01 61
		{strings.Repeat("x", 300), "ac02" + "bb036496" + strings.Repeat("78", 300)},
	} {
		if got := hex.EncodeToString(framed(t, Delimited, tc.rec)); got != tc.want {
			t.Errorf("%.10q: %.40s, want %.40s", tc.rec, got, tc.want)
		}
	}
}

func TestUnfit(t *testing.T) {
	for _, tc := range []struct {
		f    Framing
		rec  []byte
		want error
	}{
		{Raw, nil, ErrUnfit}, {Lines, []byte("a\nb"), ErrUnfit}, {Delimited, make([]byte, Max+1), ErrTooLong},
		{Lines, make([]byte, Max+1), ErrTooLong}, {Framing(9), []byte("x"), ErrFraming},
	} {
		if b, err := tc.f.Append([]byte("before"), tc.rec); !errors.Is(err, tc.want) || string(b) != "before" {
			t.Errorf("%v, %d bytes: %q, %v", tc.f, len(tc.rec), b, err)
		}
	}
	for _, f := range []Framing{Raw, Lines, Delimited} {
		if b, err := f.Append(nil, make([]byte, Max)); err != nil || len(b) > 1<<20 {
			t.Errorf("%v of the longest record: %d bytes, %v", f, len(b), err)
		}
		if got, err := ParseFraming(f.String()); err != nil || got != f {
			t.Errorf("%v: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFraming("json"); !errors.Is(err, ErrFraming) {
		t.Error(err)
	}
}

// What is no record stops the Cutter where it should have been, for good.
func TestCorrupt(t *testing.T) {
	good := framed(t, Delimited, "first", "second", "third")
	second := uint64(len(framed(t, Delimited, "first")))
	flip := func(i int) []byte { b := bytes.Clone(good); b[i] ^= 1; return b }
	for name, tc := range map[string]struct {
		stream []byte
		pos    uint64
		want   error
	}{
		"content":        {flip(int(second) + 7), second, ErrCorrupt},
		"length":         {flip(int(second)), second, ErrCorrupt},
		"CRC":            {flip(int(second) + 3), second, ErrCorrupt},
		"zeros":          {append(bytes.Clone(good[:second]), make([]byte, 100)...), second, ErrCorrupt},
		"begun inside":   {good[2:], 0, ErrCorrupt},
		"length of 4 B":  {[]byte{0x80, 0x80, 0x80, 0x01}, 0, ErrCorrupt},
		"length padded":  {[]byte{0x80, 0x00, 0, 0, 0, 0}, 0, ErrCorrupt},
		"length too big": {[]byte{0xff, 0xff, 0x7f}, 0, ErrTooLong},
	} {
		for _, size := range []int{1, 3, 1000} {
			_, _, c, err := cutAll(Delimited, 0, 0, tc.stream, size)
			var at *Error
			if !errors.Is(err, tc.want) || !errors.As(err, &at) || at.Position != tc.pos || c.Position() != tc.pos {
				t.Errorf("%s in pieces of %d: %v, stands at %d", name, size, err, c.Position())
			}
			for _, again := range c.Cut(c.Position(), good) {
				if again != err {
					t.Errorf("%s: goes on after an error: %v", name, again)
				}
			}
			if c.End() != err {
				t.Errorf("%s: ends well: %v", name, c.End())
			}
			c.Reset(50)
			n := 0
			for _, err := range c.Cut(50, good) {
				if n++; err != nil {
					t.Errorf("%s: after Reset: %v", name, err)
				}
			}
			if n != 3 {
				t.Errorf("%s: %d records after Reset", name, n)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	for _, f := range []Framing{Lines, Delimited} {
		stream := framed(t, f, strings.Repeat("x", 10), strings.Repeat("y", 11), "z")
		for _, size := range []int{1, 4, 1000} {
			recs, _, c, err := cutAll(f, 0, 10, stream, size)
			if !errors.Is(err, ErrTooLong) || len(recs) != 1 || len(c.Rest()) > 20 {
				t.Errorf("%v in pieces of %d: %q, %v, holds %d", f, size, recs, err, len(c.Rest()))
			}
		}
	}
}

func TestGapAndCut(t *testing.T) {
	c := NewCutter(Lines, 100, 0)
	for range c.Cut(100, []byte("whole\nbegin")) {
	}
	if err := c.End(); !errors.Is(err, ErrCut) || c.Position() != 106 || string(c.Rest()) != "begin" {
		t.Errorf("%v, stands at %d, holds %q", err, c.Position(), c.Rest())
	}
	for _, pos := range []uint64{106, 112} {
		c := *c
		for _, err := range c.Cut(pos, []byte("ning\n")) {
			if !errors.Is(err, ErrGap) {
				t.Errorf("bytes at %d: %v", pos, err)
			}
		}
	}
	for r, err := range c.Cut(111, []byte("ning\n")) {
		if err != nil || string(r.Data) != "beginning" || r.Position != 106 {
			t.Errorf("%q at %d, %v", r.Data, r.Position, err)
		}
	}
}

// A loop that is left early loses nothing.
func TestLeftEarly(t *testing.T) {
	for _, f := range []Framing{Lines, Delimited} {
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint("record ", i))
		}
		stream := framed(t, f, want...)
		c, pos := NewCutter(f, 0, 0), 0
		var got []string
		var last []byte
		for pos < len(stream) || len(got) < len(want) {
			n := min(23, len(stream)-pos)
			piece := stream[pos : pos+n]
			for r, err := range c.Cut(uint64(pos), piece) {
				if err != nil {
					t.Fatal(err)
				}
				last = r.Data
				break
			}
			if last != nil { // still there behind the loop
				got, last = append(got, string(last)), nil
			}
			pos += n
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %q", f, got)
		}
	}
}

func TestCutDoesNotAllocate(t *testing.T) {
	stream := framed(t, Delimited, strings.Repeat("x", 100), strings.Repeat("y", 300), "z")
	c := NewCutter(Delimited, 0, 0)
	pos, n := uint64(0), 0
	cut := func() {
		for _, piece := range [][]byte{stream[:50], stream[50:200], stream[200:]} {
			for _, err := range c.Cut(pos, piece) {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			pos += uint64(len(piece))
		}
	}
	cut()
	if got := testing.AllocsPerRun(100, cut); got > 0 {
		t.Errorf("%v allocations", got)
	}
	if n == 0 || n%3 != 0 {
		t.Errorf("%d records", n)
	}
}

// However a stream is cut into pieces, the records and the error are the same, and
// framing them again gives the bytes.
func FuzzCut(f *testing.F) {
	f.Add(byte(1), 0, []byte("a line\nanother\n\nrest"), []byte{1, 3})
	f.Add(byte(2), 10, framed(f, Delimited, "one", "", "three"), []byte{2})
	f.Add(byte(2), 0, framed(f, Delimited, strings.Repeat("x", 200)), []byte{0, 255})
	f.Add(byte(2), 0, []byte{0x80, 0x80}, []byte{1})
	f.Fuzz(func(t *testing.T, framing byte, limit int, stream, pieces []byte) {
		fr := Lines + Framing(framing%2)
		sizes := []int{1}
		for _, p := range pieces {
			sizes = append(sizes, int(p))
		}
		recs, ends, c1, err1 := cutAll(fr, 7, limit, stream, max(len(stream), 1))
		split, ends2, c2, err2 := cutAll(fr, 7, limit, stream, sizes...)
		if !slices.Equal(recs, split) || !slices.Equal(ends, ends2) || fmt.Sprint(err1) != fmt.Sprint(err2) || c1.Position() != c2.Position() {
			t.Fatalf("whole %q to %d, %v\nsplit %q to %d, %v", recs, c1.Position(), err1, split, c2.Position(), err2)
		}
		if again := framed(t, fr, recs...); !bytes.Equal(again, stream[:c1.Position()-7]) {
			t.Fatalf("%d bytes became records that are framed as %q", c1.Position()-7, again)
		}
		if err1 == nil && (c1.End() == nil) != (c1.Position()-7 == uint64(len(stream))) {
			t.Fatalf("end: %v at %d of %d", c1.End(), c1.Position()-7, len(stream))
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("record"), []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a) > Max || len(b) > Max {
			return
		}
		stream := framed(t, Delimited, string(a), string(b))
		got, _, c, err := cutAll(Delimited, 0, 0, stream, 1+len(a)/3)
		if err != nil || !slices.Equal(got, []string{string(a), string(b)}) || c.End() != nil {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
