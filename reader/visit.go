package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// look is what is read of one length page at one node.
type look struct {
	page       *page
	shards     []*follow // whose entries are wanted
	first, end int       // the part of the page that holds them
	locate     bool      // its place is looked up first
	found      bool
	index      uint32
	sets       [2][]byte
	bytes      []byte // the part; nil: not read
	along      along  // of a watch
}

// visit is the reading of length pages at one node: the places that are not known
// first, then the pages, one READ each. It touches nothing but itself. One goroutine
// at a time.
type visit struct {
	peer  *peer
	looks []look // at most pollPages

	via      *path
	posted   time.Time
	deadline time.Time
	timeout  time.Duration
	state    visitState
	err      error // why it ended
	// b is kept between visits: Readers that use up the batch memory of the path
	// must not make the poller blind.
	b    batch
	of   *path // whose b is
	size int

	late  bool      // another goroutine waits for it
	until time.Time // of a watch: when the node answers at the latest; zero: at once
}

type visitState int

const (
	visitLocating visitState = iota
	visitReading
	visitOver
)

// pollPages is the most pages in one visit: 256 KiB.
const pollPages = 64

// start begins the visit.
func (v *visit) start() {
	v.state, v.err = visitLocating, nil
	v.posted = time.Now() // also when nothing is
	if err := v.room(len(v.looks) * layout.PageSize); err != nil {
		v.end(err)
		return
	}
	missing := 0
	for i := range v.looks {
		l := &v.looks[i]
		if !l.locate {
			continue
		}
		missing++
		for j, set := range v.via.geometry.PageSetsOf(l.page.key, l.page.number) {
			l.sets[j] = v.b.Add(v.via.geometry.PageSet(set), layout.SetSize)
		}
	}
	if missing == 0 {
		v.read()
		return
	}
	v.post()
}

// read posts the reads of the pages that were found.
func (v *visit) read() {
	n := 0
	for i := range v.looks {
		if l := &v.looks[i]; l.found {
			l.bytes = v.b.Add(v.via.geometry.PageSlot(l.index)+uint64(l.first), l.end-l.first)
			n++
		}
	}
	if n == 0 {
		v.state = visitOver
		return
	}
	v.state = visitReading
	v.post()
}

func (v *visit) post() {
	v.posted = time.Now()
	v.deadline = v.posted.Add(v.timeout)
	if err := v.b.Post(v.deadline); err != nil {
		v.end(err)
	}
}

// await waits until the visit is over, or until a time before the deadline of what
// is on its way.
func (v *visit) await(until time.Time) (over bool) {
	since := time.Now()
	for v.state != visitOver {
		settled, err := v.b.Await(until)
		switch {
		case err != nil:
			v.end(err)
		case !settled:
			return false
		case v.state == visitLocating:
			v.took(since)
			v.locate()
			v.b.Reset()
			v.read()
		default:
			v.took(since)
			v.state = visitOver
		}
	}
	return true
}

// finish waits until the visit is over.
func (v *visit) finish() {
	for !v.await(v.deadline) {
	}
}

func (v *visit) took(since time.Time) {
	if !v.until.IsZero() { // the node has waited
		return
	}
	v.via.took(time.Now(), 0, v.posted, latest(since, v.posted))
}

// locate takes the places that were looked up.
func (v *visit) locate() {
	for i := range v.looks {
		l := &v.looks[i]
		if !l.locate {
			continue
		}
		for j, set := range v.via.geometry.PageSetsOf(l.page.key, l.page.number) {
			if l.sets[j] == nil {
				continue
			}
			if way, _, ok := layout.FindIdentity(l.sets[j], l.page.key, l.page.number); ok {
				l.index, l.found = set*layout.Ways+uint32(way), true
			}
		}
		l.sets = [2][]byte{}
	}
}

// room makes sure of an empty batch of the path for n bytes.
func (v *visit) room(n int) (err error) {
	if v.b != nil && v.of == v.via && v.size >= n {
		v.b.Reset()
		return nil
	}
	v.release()
	if v.b, err = v.via.newBatch(n); err != nil {
		v.b = nil
		return err
	}
	v.of, v.size = v.via, n
	return nil
}

// end gives up after an error. The batch may be abandoned.
func (v *visit) end(err error) {
	v.release()
	v.err, v.state = err, visitOver
}

func (v *visit) release() {
	if v.b != nil {
		v.b.Release()
	}
	v.b, v.of, v.size = nil, nil, 0
}
