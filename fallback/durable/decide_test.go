package durable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func seg(base, size uint64) segment {
	return segment{name: segmentName(time.Unix(1e9, 0).Add(time.Duration(base)), base), base: base, size: size}
}

// disk is a shard with identity 7 and a mark of this boot.
func disk(m slot, segs ...segment) found {
	m.incarnation = 7
	return found{path: "/p", hasMeta: true, incarnation: 7, markThere: true, markOK: true, markWhole: true, mark: m, segs: segs, sameBoot: true}
}

func with(f found, change func(*found)) found {
	change(&f)
	return f
}

func otherBoot(f *found)  { f.sameBoot = false }
func wholeGroup(f *found) { f.pendingOK = true }
func noMark(f *found)     { f.markOK, f.markThere, f.mark = false, false, slot{} }
func badMark(f *found)    { f.markOK, f.mark = false, slot{} }
func noMeta(f *found)     { f.hasMeta, f.incarnation = false, 0 }

func TestDecide(t *testing.T) {
	flushed := func(length uint64) slot { return slot{length: length, synced: length} }
	pending := func(length uint64, n uint32) slot { return slot{length: length, synced: length, pending: n} }
	lazy := func(length, synced uint64) slot { return slot{length: length, synced: synced, flags: flagLazy} }
	failed := func(length, synced uint64) slot { return slot{length: length, synced: synced, flags: flagFailed} }
	cases := []struct {
		name   string
		found  found
		length uint64
		renew  bool
		notes  int
	}{
		{"new", found{}, 0, true, 0},
		{"new, identity written", with(disk(slot{}), noMark), 0, false, 0},
		{"new, mark written", disk(flushed(0)), 0, false, 0},
		{"empty segment", disk(flushed(0), seg(0, 0)), 0, false, 0},
		{"clean", disk(flushed(30), seg(0, 10), seg(10, 20)), 30, false, 0},
		{"clean, other boot", with(disk(flushed(30), seg(0, 10), seg(10, 20)), otherBoot), 30, false, 0},
		{"clean, last segment empty", disk(flushed(10), seg(0, 10), seg(10, 0)), 10, false, 0},
		{"empty segment in the middle", disk(flushed(10), seg(0, 5), seg(5, 0), segment{"20261130T000000.000000000Z-00000000000000000005.log", 5, 5}), 10, false, 0},
		{"old segments removed", disk(flushed(30), seg(10, 20)), 30, false, 0},
		{"all segments removed", disk(flushed(30)), 30, false, 0},
		{"all segments removed, other boot", with(disk(lazy(30, 10)), otherBoot), 30, true, 1},

		{"torn append", disk(pending(10, 20), seg(0, 15)), 10, false, 1},
		{"torn append, other boot", with(disk(pending(10, 20), seg(0, 15)), otherBoot), 10, false, 1},
		{"append written, other bytes", disk(pending(10, 20), seg(0, 30)), 10, false, 1},
		{"append written", with(disk(pending(10, 20), seg(0, 30)), wholeGroup), 30, false, 0},
		{"append written, other boot", with(with(disk(pending(10, 20), seg(0, 30)), wholeGroup), otherBoot), 30, false, 0},
		{"append written, part of the next one", with(disk(pending(10, 20), seg(0, 40)), wholeGroup), 30, false, 1},
		{"append announced only", disk(pending(10, 20), seg(0, 10)), 10, false, 0},
		{"rolled over, mark one slot behind", disk(pending(10, 20), seg(0, 30), seg(30, 0)), 30, false, 0},
		{"rolled over, mark one slot behind, part of the next append", disk(pending(10, 20), seg(0, 30), seg(30, 5)), 30, false, 1},
		{"mark far behind", disk(flushed(10), seg(0, 11+maxGroup)), 11 + maxGroup, false, 1},
		{"mark segments behind", disk(flushed(10), seg(0, 20), seg(20, 5)), 25, false, 1},

		{"lazy, same boot", disk(lazy(30, 10), seg(0, 30)), 30, false, 0},
		{"lazy, same boot, torn append", disk(lazy(30, 10), seg(0, 35)), 30, false, 1},
		{"lazy, other boot", with(disk(lazy(30, 10), seg(0, 30)), otherBoot), 30, true, 1},
		{"lazy, other boot, bytes lost", with(disk(lazy(30, 10), seg(0, 20)), otherBoot), 20, true, 1},
		{"lazy, other boot, mark behind", with(disk(lazy(10, 10), seg(0, 40)), otherBoot), 40, true, 1},
		{"lazy, same boot, bytes lost", disk(lazy(30, 10), seg(0, 20)), 20, true, 1},

		{"failed, nothing readable lost", disk(failed(30, 30), seg(0, 50)), 30, false, 1},
		{"failed, readable bytes lost", disk(failed(30, 20), seg(0, 30)), 20, true, 1},
		{"failed, what was flushed is out of retention", disk(failed(30, 20), seg(25, 5)), 25, true, 1},

		{"mark missing", with(disk(slot{}, seg(0, 30)), noMark), 30, false, 1},
		{"mark unreadable", with(disk(slot{}, seg(0, 30)), badMark), 30, false, 1},
		{"mark unreadable, no segments", with(disk(slot{}), badMark), 0, true, 1},
		{"mark of another incarnation", with(disk(flushed(10), seg(0, 30)), func(f *found) { f.mark.incarnation = 8 }), 30, true, 1},
		{"identity missing", with(disk(flushed(30), seg(0, 30)), noMeta), 30, false, 1},
		{"identity and mark missing", with(with(disk(slot{}, seg(5, 30)), noMeta), noMark), 35, true, 1},
		{"identity missing, mark unreadable, no segments", with(with(disk(slot{}), noMeta), badMark), 0, true, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := decide(c.found)
			if err != nil {
				t.Fatal(err)
			}
			if p.length != c.length || p.newIncarnation != c.renew || len(p.notes) != c.notes {
				t.Fatalf("length %d, renewed %v, notes %q; want %d, %v, %d notes", p.length, p.newIncarnation, p.notes, c.length, c.renew, c.notes)
			}
			if !p.newIncarnation && p.incarnation != 7 {
				t.Fatalf("incarnation %d", p.incarnation)
			}
			if p.writeMeta != (p.newIncarnation || !c.found.hasMeta) {
				t.Fatalf("writeMeta %v", p.writeMeta)
			}
		})
	}
}

func TestDecideRefuses(t *testing.T) {
	late := seg(10, 5)
	late.name = "20261130T000000.000000000Z" + late.name[len(segmentTime):]
	cases := []struct {
		name       string
		found      found
		file       string
		want, have uint64
	}{
		{"gap", disk(slot{length: 30, synced: 30}, seg(0, 10), seg(15, 15)), seg(15, 0).name, 10, 15},
		{"overlap", disk(slot{length: 30, synced: 30}, seg(0, 20), seg(15, 15)), seg(15, 0).name, 20, 15},
		{"names out of order", disk(slot{length: 30, synced: 30}, seg(20, 10), late), late.name, 20, 10},
		{"end missing", disk(slot{length: 30, synced: 30}, seg(0, 20)), seg(0, 0).name, 30, 20},
		{"end missing, other boot", with(disk(slot{length: 30, synced: 30}, seg(0, 20)), otherBoot), seg(0, 0).name, 30, 20},
		{"flushed end missing, lazy", with(disk(slot{length: 30, synced: 25, flags: flagLazy}, seg(0, 20)), otherBoot), seg(0, 0).name, 25, 20},
		{"flushed end missing, failed", disk(slot{length: 30, synced: 25, flags: flagFailed}, seg(0, 20)), seg(0, 0).name, 25, 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := decide(c.found)
			var e *CorruptError
			if !errors.Is(err, ErrCorrupt) || !errors.As(err, &e) {
				t.Fatalf("plan %+v, error %v", p, err)
			}
			if e.File != "/p/"+c.file || e.Want != c.want || e.Have != c.have {
				t.Fatalf("%v; want %s, %d, %d", err, c.file, c.want, c.have)
			}
			if s := err.Error(); !strings.Contains(s, c.file) || !strings.Contains(s, fmt.Sprint(c.want)) {
				t.Fatal(s)
			}
		})
	}
}

// Whatever is on disk, a plan never promises what is not there, cuts only what it
// may, and uses no position twice.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Uint64Range(0, 60)
		f := found{
			path:      "/p",
			hasMeta:   rapid.Bool().Draw(t, "meta"),
			markThere: rapid.Bool().Draw(t, "mark"),
			sameBoot:  rapid.Bool().Draw(t, "boot"),
		}
		if f.hasMeta {
			f.incarnation = rapid.Uint64Range(1, 2).Draw(t, "incarnation")
		}
		base := small.Draw(t, "first")
		for range rapid.IntRange(0, 4).Draw(t, "segments") {
			s := seg(base, small.Draw(t, "size"))
			s.name = segmentName(time.Unix(int64(len(f.segs)), 0), base)
			f.segs = append(f.segs, s)
			base = s.end() + rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 0, 0, 1}).Draw(t, "gap")
		}
		if f.markOK = f.markThere && rapid.Bool().Draw(t, "readable"); f.markOK {
			m := &f.mark
			m.incarnation = rapid.Uint64Range(1, 2).Draw(t, "mark incarnation")
			m.length = rapid.Uint64Range(0, 250).Draw(t, "length")
			m.synced = rapid.Uint64Range(0, m.length).Draw(t, "synced")
			m.flags = rapid.SampledFrom([]uint16{0, 0, flagLazy, flagFailed, flagLazy | flagFailed, flagSealed}).Draw(t, "flags")
			if m.flags == 0 {
				m.synced = m.length
				m.pending = uint32(small.Draw(t, "pending"))
			}
			f.pendingOK = m.pending > 0 && len(f.segs) > 0 && f.segs[0].base <= m.length && f.end() >= m.length+uint64(m.pending) && rapid.Bool().Draw(t, "whole")
		}
		p, err := decide(f)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if p.length > f.end() || len(f.segs) > 0 && p.length < f.segs[0].base {
			t.Fatalf("length %d of segments that end at %d", p.length, f.end())
		}
		if p.rewriteFrom > p.length || p.flushFrom > p.length {
			t.Fatalf("%+v", p)
		}
		if p.newIncarnation {
			return
		}
		m := f.mark
		if f.markOK && p.length < m.length {
			t.Fatalf("length %d, %d was readable", p.length, m.length)
		}
		if cut := f.end() - p.length; cut > maxGroup {
			t.Fatalf("%d bytes cut off", cut)
		}
		if f.markOK && m.flags&(flagLazy|flagFailed) == 0 && f.pendingOK && p.length < m.length+uint64(m.pending) {
			t.Fatalf("a whole append was cut off at %d", p.length)
		}
		if !f.hasMeta && !f.markOK {
			t.Fatal("incarnation out of nothing")
		}
	})
}
