package durable

import "path/filepath"

// found is what opening a shard finds on disk.
type found struct {
	path        string // of the shard's directory, for errors
	hasMeta     bool
	incarnation uint64 // of the identity
	markThere   bool   // there is a mark file, whatever is in it
	markOK      bool   // mark is its newest whole slot
	markWhole   bool   // the mark file has its full size
	mark        slot
	segs        []segment // in name order, with sizes
	sameBoot    bool      // the mark was written in this boot
	pendingOK   bool      // the mark's pending group is in the files, and its CRC fits
}

// plan is what opening a shard does about it.
type plan struct {
	newIncarnation bool   // draw one, and write the identity
	incarnation    uint64 // kept otherwise
	writeMeta      bool
	length         uint64 // the new length: what lies above is cut off
	rewriteFrom    uint64 // [rewriteFrom, length) is written again before it is flushed
	flushFrom      uint64 // what lies above is flushed
	sealed         bool
	notes          []string // what an operator should know
}

// end returns where the segments end: at the mark's length when there are none.
func (f *found) end() uint64 {
	if n := len(f.segs); n > 0 {
		return f.segs[n-1].end()
	}
	if f.markOK {
		return f.mark.length
	}
	return 0
}

// decide is the recovery of the package comment. It reads nothing and changes
// nothing. Its error is a *CorruptError.
func decide(f found) (plan, error) {
	if err := checkBases(f.path, f.segs); err != nil {
		return plan{}, err
	}
	if err := checkSizes(f.path, f.segs); err != nil {
		return plan{}, err
	}
	// Without a reason to do otherwise, everything is kept and flushed.
	p := plan{incarnation: f.incarnation, writeMeta: !f.hasMeta, length: f.end(), rewriteFrom: f.end()}
	m := f.mark
	if f.markOK {
		p.sealed = m.has(flagSealed)
		if !f.hasMeta {
			p.incarnation = m.incarnation
			p.note("identity was missing, made again from the mark")
		}
	}
	switch {
	case !f.markOK:
		p.withoutMark(f)
	case m.incarnation != p.incarnation:
		p.renew("mark was of another incarnation, segments kept as they are")
	case m.has(flagFailed):
		return p.afterFailure(f)
	case m.has(flagLazy) && (!f.sameBoot || f.end() < m.length):
		if f.end() < m.synced {
			return plan{}, lost(f, m.synced)
		}
		p.flushFrom = m.synced
		p.renew("readable bytes may be gone: they were not flushed, as policies interval and never allow")
	default:
		return p.upToMark(f)
	}
	return p, nil
}

func (p *plan) withoutMark(f found) {
	switch {
	case !f.hasMeta && len(f.segs) == 0:
		p.newIncarnation = true // a new shard, or one whose creation was cut short
	case !f.hasMeta:
		p.renew("identity and mark were missing, segments taken over as a new shard")
	case len(f.segs) > 0:
		p.note("mark was missing or unreadable, segments kept as they are")
	case f.markThere:
		p.renew("mark was unreadable and there were no segments: begins again at 0")
	}
}

// upToMark keeps the bytes below the mark's length, and the pending group when it
// is whole.
func (p plan) upToMark(f found) (plan, error) {
	m := f.mark
	if f.end() < m.length {
		return plan{}, lost(f, m.length)
	}
	pend := m.length + uint64(m.pending)
	var active uint64
	if n := len(f.segs); n > 0 {
		active = f.segs[n-1].base
	}
	// A roll-over follows the publication of what came before it, but the slot that
	// says so may not have reached the disk.
	rolled := m.pending > 0 && active == pend
	if active > m.length && !rolled || f.end() > pend && f.end()-pend > maxGroup {
		p.note("mark was older than the segments, all of them kept")
		return p, nil
	}
	p.flushFrom = m.synced
	switch {
	case rolled:
		p.length, p.rewriteFrom = pend, pend
	case f.pendingOK && f.end() >= pend:
		p.length, p.rewriteFrom = pend, m.length
	default:
		p.length, p.rewriteFrom = m.length, m.length
	}
	if f.end() > p.length {
		p.note("last append was incomplete, cut off")
	}
	return p, nil
}

// afterFailure keeps what was flushed before a flush failed.
func (p plan) afterFailure(f found) (plan, error) {
	m := f.mark
	if f.end() < m.synced {
		return plan{}, lost(f, m.synced)
	}
	keep := m.synced
	if len(f.segs) > 0 {
		keep = max(keep, f.segs[0].base)
	}
	p.length, p.rewriteFrom = keep, keep
	if m.synced < m.length {
		p.renew("a flush had failed: readable bytes that were not flushed are cut off")
	} else if f.end() > keep {
		p.note("a flush had failed: the append is cut off")
	}
	return p, nil
}

// lost says that flushed bytes below want are not there.
func lost(f found, want uint64) error {
	file := f.path
	if n := len(f.segs); n > 0 {
		file = filepath.Join(f.path, f.segs[n-1].name)
	}
	return &CorruptError{file, "flushed bytes are missing at the end", want, f.end()}
}

func (p *plan) note(s string) { p.notes = append(p.notes, s) }

// renew gives the shard a new incarnation: no position is used twice.
func (p *plan) renew(why string) {
	p.newIncarnation, p.writeMeta = true, true
	p.note(why + "; new incarnation")
}
