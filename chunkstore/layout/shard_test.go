package layout

import (
	"errors"
	"strings"
	"testing"
)

func TestParseShard(t *testing.T) {
	long := strings.Repeat("a", MaxStream)
	for in, want := range map[string]Shard{
		"logs/0000":       {"logs", 0},
		"logs/7":          {"logs", 7},
		"a.b_C-9/0012345": {"a.b_C-9", 12345},
		"0/4294967295":    {"0", 1<<32 - 1},
		long + "/0001":    {long, 1},
	} {
		if got, err := ParseShard(in); err != nil || got != want {
			t.Errorf("ParseShard(%q) = %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "logs", "/1", "logs/", "logs/x", "logs/-1", "logs/+1", "logs/1/2", "logs/ 1", "logs/4294967296", "logs/99999999999",
		".a/1", "-a/1", "_a/1", "a b/1", "a\x00/1", "ä/1", "../1", long + "a/1",
	} {
		if got, err := ParseShard(in); !errors.Is(err, ErrName) {
			t.Errorf("ParseShard(%q) = %+v, %v", in, got, err)
		}
	}
	if s := (Shard{"logs", 7}).String(); s != "logs/0007" {
		t.Errorf("String: %s", s)
	}
	if s := (Shard{"logs", 1234567}).String(); s != "logs/1234567" {
		t.Errorf("String: %s", s)
	}
}

func TestShardPlaces(t *testing.T) {
	s := Shard{"logs", 2*EntriesPerPage + 127}
	if s.Page() != 2 || s.EntryOffset() != 4064 {
		t.Errorf("page %d, offset %d", s.Page(), s.EntryOffset())
	}
	seen := map[Hash]string{StreamHash("logs"): "pages"}
	for name, h := range map[string]Hash{
		"shard":       Shard{"logs", 1}.Hash(1),
		"number":      Shard{"logs", 2}.Hash(1),
		"incarnation": Shard{"logs", 1}.Hash(2),
		"stream":      Shard{"log", 1}.Hash(1),
		"other pages": StreamHash("log"),
	} {
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		seen[h] = name
	}
}
