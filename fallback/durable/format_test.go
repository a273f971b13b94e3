package durable

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/fallback/wire"
)

func TestSlotGolden(t *testing.T) {
	s := slot{flags: flagSealed | flagLazy, seq: 0x11, incarnation: 0x2222, boot: 0x333333, length: 0x1000, synced: 0xfff, pending: 0x40, pendingCRC: 0xaabbccdd}
	var b [slotSize]byte
	s.put(b[:])
	const want = "" +
		"726d4c4d" + // magic "rmLM"
		"0100" + // version
		"0300" + // flags: sealed, lazy
		"1100000000000000" + // sequence
		"2222000000000000" + // incarnation
		"3333330000000000" + // boot
		"0010000000000000" + // length
		"ff0f000000000000" + // synced
		"40000000" + // pending
		"ddccbbaa" + // CRC of the pending group
		"e87a1b99" + // CRC of the above
		"00000000"
	if got := hex.EncodeToString(b[:]); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestMetaGolden(t *testing.T) {
	const want = "rmatail shard 1\nincarnation 00000000deadbeef\ncrc32c 22c74a47\n"
	if got := string(encodeMeta(0xdeadbeef)); got != want {
		t.Fatalf("%q", got)
	}
	for _, bad := range []string{"", "\n", want[:len(want)-1], want + "\n", strings.Replace(want, "beef", "bee1", 1), "hello", strings.ToUpper(want)} {
		if _, err := parseMeta([]byte(bad)); !errors.Is(err, errMeta) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := parseMeta([]byte("rmatail shard 2\nfoo")); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
}

// Whatever happens to one slot while it is written, the other one counts.
func TestMarkTornWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, markSize)
		older := slot{seq: rapid.Uint64Range(1, 1e6).Draw(t, "seq"), length: 5, synced: 5}
		newer := slot{seq: older.seq + 1, length: 9, synced: 9}
		older.put(b[older.offset():])
		before := bytes.Clone(b)
		newer.put(b[newer.offset():])
		if got, ok := parseMark(b); !ok || got != newer {
			t.Fatalf("%+v, %v", got, ok)
		}
		torn := rapid.IntRange(0, slotSize-1).Draw(t, "torn")
		copy(b[int(newer.offset())+torn:], before[int(newer.offset())+torn:])
		got, ok := parseMark(b)
		if !ok || got != older && got != newer {
			t.Fatalf("torn at %d: %+v, %v", torn, got, ok)
		}
	})
}

func TestMarkGarbage(t *testing.T) {
	good := make([]byte, markSize)
	slot{seq: 1, length: 9, synced: 9}.put(good[markStride:])
	for _, b := range [][]byte{nil, {1}, make([]byte, markSize), bytes.Repeat([]byte{0xff}, markSize), good[:markRead-1]} {
		if s, ok := parseMark(b); ok {
			t.Errorf("%d bytes: %+v", len(b), s)
		}
	}
	if s, ok := parseMark(good[:markRead]); !ok || s.length != 9 {
		t.Errorf("%+v, %v", s, ok)
	}
}

func TestReadable(t *testing.T) {
	for _, c := range []struct {
		flags uint16
		boot  uint64
		want  uint64
	}{
		{0, 1, 10}, {0, 2, 10}, {flagLazy, 1, 10}, {flagLazy, 2, 4}, {flagFailed, 1, 4}, {flagLazy | flagFailed, 1, 4}, {flagSealed, 2, 10},
	} {
		s := slot{flags: c.flags, boot: 1, length: 10, synced: 4}
		if got := s.readable(c.boot); got != c.want {
			t.Errorf("flags %d, boot %d: %d, want %d", c.flags, c.boot, got, c.want)
		}
	}
}

func TestSegmentNames(t *testing.T) {
	when := time.Date(2026, 11, 30, 15, 2, 3, 123456789, time.FixedZone("", 3600))
	name := segmentName(when, 268435456)
	if want := "20261130T140203.123456789Z-00000000000268435456.log"; name != want {
		t.Fatalf("%s, want %s", name, want)
	}
	s, ok := parseSegment(name)
	if !ok || s.base != 268435456 || !s.created().Equal(when) {
		t.Fatalf("%+v, %v", s, ok)
	}
	if _, ok := parseSegment(segmentName(when, ^uint64(0))); !ok {
		t.Fatal("greatest base")
	}
	foreign := []string{"", ".", "lock", "shard", "length", ".nfs000001", name + "~", name[1:], name[:len(name)-4],
		strings.Replace(name, "T", "t", 1), strings.Replace(name, "1130", "1131", 1), strings.Replace(name, "-0", "--", 1),
		strings.Replace(name, "-0", "-+", 1), "20261130T140203.123456789Z-99999999999999999999.log", strings.Replace(name, ".log", ".LOG", 1)}
	for _, n := range foreign {
		if s, ok := parseSegment(n); ok {
			t.Errorf("%q: %+v", n, s)
		}
	}
	segs := parseSegments(append([]string{segmentName(when, 5), segmentName(when.Add(time.Hour), 9), segmentName(when, 0)}, foreign...))
	if len(segs) != 3 || segs[0].base != 0 || segs[1].base != 5 || segs[2].base != 9 {
		t.Fatalf("%+v", segs)
	}
	for pos, want := range map[uint64]int{0: 0, 4: 0, 5: 1, 8: 1, 9: 2, 1 << 40: 2} {
		if got := locate(segs, pos); got != want {
			t.Errorf("locate(%d) = %d, want %d", pos, got, want)
		}
	}
	if got := locate([]segment{{base: 3}, {base: 3}, {base: 3}, {base: 7}}, 3); got != 2 {
		t.Errorf("of empty segments the last one counts: %d", got)
	}
}

func TestShardNames(t *testing.T) {
	for in, want := range map[string]string{
		"a/0000": "a/0000", "a/1": "a/0001", "A.b_c-d/00000000": "A.b_c-d/0000", "0/12345": "0/12345",
		"x/4294967295": "x/4294967295", "x/0000000012": "x/0012", strings.Repeat("s", 128) + "/0001": strings.Repeat("s", 128) + "/0001",
	} {
		stream, number, err := splitShard(in)
		if got := stream + "/" + number; err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "/", "a", "a/", "/0001", "../0001", "./1", ".a/1", "-a/1", "a b/1", "a/b/1", "a//1", "a/1/", "a/-1", "a/+1",
		"a/0x1", "a/4294967296", "a/00000000001", "a\x00/1", "ä/1", "a/１", "a\\b/1", strings.Repeat("s", 129) + "/0001", "a/..", "a/1.log"} {
		if s, n, err := splitShard(bad); !errors.Is(err, wire.ErrBadRequest) {
			t.Errorf("%q: %q %q %v", bad, s, n, err)
		}
	}
}

func FuzzShardName(f *testing.F) {
	for _, s := range []string{"a/0000", "a/1", "../..", "a/../b", "x/4294967295", "a/\x00", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		stream, number, err := splitShard(s)
		if err != nil {
			if !errors.Is(err, wire.ErrBadRequest) {
				t.Fatal(err)
			}
			return
		}
		if !validStream(stream) || !canonicalNumber(number) {
			t.Fatalf("%q became %q, %q", s, stream, number)
		}
		path := shardPath("/root", stream, number)
		if path != "/root/"+stream+"/"+number || strings.Count(path, "/") != 3 || strings.ContainsRune(path, 0) || stream[0] == '.' {
			t.Fatalf("%q became %q", s, path)
		}
		again, n, err := splitShard(stream + "/" + number)
		if err != nil || again != stream || n != number {
			t.Fatalf("%q is not canonical", stream+"/"+number)
		}
	})
}

func FuzzSegmentName(f *testing.F) {
	f.Add(segmentName(time.Unix(1.8e9, 5), 77))
	f.Add("20261130T140203.123456789Z-00000000000000000000.log")
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseSegment(name); ok && segmentName(s.created(), s.base) != name {
			t.Fatalf("%q is not how it would be named", name)
		}
	})
}

func FuzzMark(f *testing.F) {
	b := make([]byte, markSize)
	slot{seq: 1, length: 9, synced: 9}.put(b[markStride:])
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := parseMark(b)
		if ok && (s.synced > s.length || s.pending > maxGroup || s.length+uint64(s.pending) < s.length) {
			t.Fatalf("%+v", s)
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add(encodeMeta(1))
	f.Add([]byte("rmatail shard 9\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if inc, err := parseMeta(b); err == nil && !bytes.Equal(encodeMeta(inc), b) {
			t.Fatalf("%q", b)
		}
	})
}

func TestOptions(t *testing.T) {
	if o, err := (Options{}).withDefaults(); err != nil || o.Policy != Always || o.SegmentBytes != 256<<20 || o.SegmentAge != time.Hour {
		t.Fatalf("%+v, %v", o, err)
	}
	for _, o := range []Options{{Policy: 9}, {Policy: -1}, {Interval: time.Microsecond}, {SegmentBytes: -1}, {SegmentAge: -1}, {QueueBytes: 1}, {QueueBytes: maxGroup + 1}, {OpenFiles: -1}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	for _, s := range []string{"always", "interval", "never"} {
		if p, err := ParsePolicy(s); err != nil || p.String() != s {
			t.Errorf("%s: %v, %v", s, p, err)
		}
	}
	if _, err := ParsePolicy("sometimes"); err == nil {
		t.Error("sometimes")
	}
	if s := Policy(7).String(); s != "policy 7" {
		t.Error(s)
	}
}
