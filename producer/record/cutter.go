package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
)

// Record is one record of a shard.
type Record struct {
	Position uint64 // of its first byte, framing included
	End      uint64 // behind its last one: where to go on from
	Data     []byte // without framing; until the next one is asked for
}

// Cutter cuts the bytes of a shard into records, in whatever pieces they come. It
// holds at most one unfinished record. One goroutine at a time.
type Cutter struct {
	framing Framing
	limit   int
	pos     uint64 // of held, or of what comes next
	held    []byte // bytes that came and are not handed out yet
	spent   []byte // the memory of held, from its beginning
	err     error
}

// NewCutter returns a Cutter for bytes from pos on, where a record has to begin.
// limit is the longest record that is accepted, 1 to Max; 0 is Max.
func NewCutter(f Framing, pos uint64, limit int) *Cutter {
	if limit <= 0 || limit > Max {
		limit = Max
	}
	return &Cutter{framing: f, limit: limit, pos: pos}
}

// Position returns where the first record begins that was not handed out: where a
// consumer goes on from that is done with all records before.
func (c *Cutter) Position() uint64 { return c.pos }

// Rest returns the bytes of the record that is not whole yet, until the next Cut.
func (c *Cutter) Rest() []byte { return c.held }

// Reset forgets everything, and begins again at pos. It is how a caller skips what
// is no record.
func (c *Cutter) Reset(pos uint64) { c.pos, c.held, c.err = pos, nil, nil }

// End returns nil if the bytes so far end with a record, and ErrCut otherwise. A
// shard that was sealed ends so.
func (c *Cutter) End() error {
	if c.err == nil && len(c.held) > 0 {
		return &Error{c.pos, ErrCut, fmt.Sprintf("%d bytes of it are there", len(c.held))}
	}
	return c.err
}

// Cut takes the bytes at pos, which have to continue those before, and yields the
// records that are whole now. data is borrowed until the loop has ended. An *Error
// ends the loop, and every further Cut begins with it, until Reset. A loop that is
// left early loses nothing: what was not yielded comes with the next Cut.
func (c *Cutter) Cut(pos uint64, data []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if want := c.pos + uint64(len(c.held)); c.err == nil && pos != want {
			c.err = &Error{pos, ErrGap, fmt.Sprintf("want %d", want)}
		}
		if c.err != nil {
			yield(Record{}, c.err)
			return
		}
		data = c.finish(yield, data)
		for len(data) > 0 && c.err == nil {
			r, n, err := c.first(data)
			if err != nil {
				c.err = err
				yield(Record{}, err)
				break
			}
			if n == 0 {
				break
			}
			c.pos, data = c.pos+uint64(n), data[n:]
			if !yield(r, nil) {
				break
			}
		}
		if len(data) > 0 && c.err == nil {
			c.hold(data)
		}
	}
}

// finish yields what is held, completed with as little of data as it takes, and
// returns the rest of data; nil when the loop is over.
func (c *Cutter) finish(yield func(Record, error) bool, data []byte) []byte {
	for len(c.held) > 0 {
		r, n, err := c.first(c.held)
		switch {
		case err != nil:
			c.err = err
			yield(Record{}, err)
			return nil
		case n > 0:
			c.pos, c.held = c.pos+uint64(n), c.held[n:]
			if !yield(r, nil) {
				c.spent = nil // the record in it is still the caller's
				c.hold(data)
				return nil
			}
		case len(data) == 0:
			return nil
		default:
			k := c.missing(data)
			c.hold(data[:k])
			data = data[k:]
		}
	}
	return data
}

// hold copies bytes that come behind those that are held.
func (c *Cutter) hold(p []byte) {
	if len(c.held) == 0 {
		c.held = c.spent[:0]
	}
	c.held = append(c.held, p...)
	if cap(c.held) > cap(c.spent) {
		c.spent = c.held
	}
}

// missing returns how much of data the held record needs at most to be whole.
func (c *Cutter) missing(data []byte) int {
	n := len(data)
	switch c.framing {
	case Lines:
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			n = i + 1
		}
		return min(n, c.limit+1-len(c.held)) // not 0: what is longer is no record
	case Delimited:
		length, k, _ := lengthOf(c.held)
		if k == 0 {
			return 1
		}
		return min(n, k+crcBytes+length-len(c.held))
	}
	return n
}

// first returns the record at the beginning of p, and how many bytes it takes; 0
// when it is not whole.
func (c *Cutter) first(p []byte) (Record, int, error) {
	switch c.framing {
	case Lines:
		i := bytes.IndexByte(p[:min(len(p), c.limit+1)], '\n')
		if i >= 0 {
			return c.record(p[:i], i+1), i + 1, nil
		}
		if len(p) > c.limit {
			return Record{}, 0, &Error{c.pos, ErrTooLong, fmt.Sprintf("no line end within %d bytes", c.limit)}
		}
		return Record{}, 0, nil
	case Delimited:
		return c.delimited(p)
	}
	return c.record(p, len(p)), len(p), nil
}

func (c *Cutter) record(data []byte, n int) Record { return Record{c.pos, c.pos + uint64(n), data} }

func (c *Cutter) delimited(p []byte) (Record, int, error) {
	length, k, ok := lengthOf(p)
	switch {
	case !ok:
		return Record{}, 0, &Error{c.pos, ErrCorrupt, "bad length"}
	case k == 0:
		return Record{}, 0, nil
	case length > c.limit:
		return Record{}, 0, &Error{c.pos, ErrTooLong, fmt.Sprintf("%d bytes, the limit is %d", length, c.limit)}
	case len(p) < k+crcBytes+length:
		return Record{}, 0, nil
	}
	n := k + crcBytes + length
	data := p[k+crcBytes : n : n]
	if want, have := binary.LittleEndian.Uint32(p[k:]), sum(p[:k], data); want != have {
		return Record{}, 0, &Error{c.pos, ErrCorrupt, fmt.Sprintf("%d bytes with CRC %08x, it says %08x", length, have, want)}
	}
	return c.record(data, n), n, nil
}

// lengthOf reads the length at the beginning of p, of k bytes; k is 0 when they
// are not all there. It is not ok when it is no length, or not as short as it
// could be.
func lengthOf(p []byte) (length, k int, ok bool) {
	for k < min(len(p), maxLength) {
		b := p[k]
		length |= int(b&0x7f) << (7 * k)
		k++
		if b < 0x80 {
			return length, k, b != 0 || k == 1
		}
	}
	return 0, 0, k < maxLength
}
