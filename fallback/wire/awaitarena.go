package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

const (
	awaitOffWords = 4
	awaitOffReads = 6
	awaitFixed    = 8
	awaitEntry    = 16
	awaitOffValue = 8

	// awaitBlock is the aligned run of bytes that the words of one request lie in.
	awaitBlock = 4096
)

var (
	_ = [1]struct{}{}[awaitOffReads+2-awaitFixed]
	_ = [1]struct{}{}[awaitOffValue+8-awaitEntry]
	_ = [1]struct{}{}[MaxAwaitWords*32-awaitBlock]
)

// ArenaWord is the 8-byte word of the arena at Off, a multiple of 8, and a value that it had.
type ArenaWord struct{ Off, Value uint64 }

// AwaitArena asks for arena bytes as soon as one of some words has another value, and after a time with what there is then. Only nodes with
// FeatureAwait do.
type AwaitArena struct {
	Wait  time.Duration // whole milliseconds, rounded up; at most MaxAwait. 0: now
	Words []ArenaWord   // 1 to MaxAwaitWords, in one aligned block of 4,096 B
	Reads []ArenaRead   // as of ReadArena
	Along ExtentRead    // answered behind Reads
}

// AppendTo appends a's payload to dst.
func (a *AwaitArena) AppendTo(dst []byte) ([]byte, error) {
	switch {
	case a.Wait < 0 || a.Wait > MaxAwait:
		return dst, fmt.Errorf("wait of %s, 0 to %s: %w", a.Wait, MaxAwait, ErrBadRequest)
	case len(a.Words) < 1 || len(a.Words) > MaxAwaitWords:
		return dst, fmt.Errorf("%d words, needs 1 to %d: %w", len(a.Words), MaxAwaitWords, ErrBadRequest)
	}
	for _, w := range a.Words {
		if err := w.check(a.Words[0]); err != nil {
			return dst, err
		}
	}
	if err := checkReads(a.Reads); err != nil {
		return dst, err
	}
	total := 0
	for _, r := range a.Reads {
		total += int(r.N)
	}
	if err := a.Along.check(total); err != nil {
		return dst, err
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32((a.Wait+time.Millisecond-1)/time.Millisecond))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(a.Words)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(a.Reads)))
	for _, w := range a.Words {
		dst = binary.LittleEndian.AppendUint64(dst, w.Off)
		dst = binary.LittleEndian.AppendUint64(dst, w.Value)
	}
	return a.Along.appendTo(appendReads(dst, a.Reads)), nil
}

// check holds w's own limits, and that it is in the block of the first word.
func (w ArenaWord) check(first ArenaWord) error {
	if w.Off%8 != 0 || w.Off/awaitBlock != first.Off/awaitBlock {
		return fmt.Errorf("word at %d, needs a multiple of 8 in the aligned %d B of the first word, at %d: %w", w.Off, awaitBlock, first.Off, ErrBadRequest)
	}
	return nil
}

// ArenaAwait is a parsed AwaitArena request: a view of its payload, dead when the payload is.
type ArenaAwait struct {
	Wait  time.Duration
	Words ArenaWords
	Reads ArenaReads
	Along ExtentRead
}

// Total is the length of the reply's payload.
func (a *ArenaAwait) Total() int { return a.Reads.Total() + int(a.Along.N) }

// ParseAwaitArena checks an AwaitArena request. The limits that need the arena's size are the server's to check.
func ParseAwaitArena(p []byte) (ArenaAwait, error) {
	if err := atLeast(p, "wait request", awaitFixed, ErrBadRequest); err != nil {
		return ArenaAwait{}, err
	}
	wait := time.Duration(binary.LittleEndian.Uint32(p)) * time.Millisecond
	if wait > MaxAwait {
		return ArenaAwait{}, fmt.Errorf("wait of %s, at most %s: %w", wait, MaxAwait, ErrBadRequest)
	}
	words, reads := int(binary.LittleEndian.Uint16(p[awaitOffWords:])), int(binary.LittleEndian.Uint16(p[awaitOffReads:]))
	if words < 1 || words > MaxAwaitWords {
		return ArenaAwait{}, fmt.Errorf("%d words, needs 1 to %d: %w", words, MaxAwaitWords, ErrBadRequest)
	}
	p = p[awaitFixed:]
	if err := atLeast(p, "list of words", words*awaitEntry, ErrBadRequest); err != nil {
		return ArenaAwait{}, err
	}
	a := ArenaAwait{Wait: wait, Words: ArenaWords{p[:words*awaitEntry]}}
	for i := range words {
		if err := a.Words.At(i).check(a.Words.At(0)); err != nil {
			return ArenaAwait{}, err
		}
	}
	p = p[words*awaitEntry:]
	list := reads * readArenaEntry
	if err := atLeast(p, "read list", list, ErrBadRequest); err != nil {
		return ArenaAwait{}, err
	}
	var err error
	if a.Reads, err = parseReads(p[:list], reads); err == nil {
		a.Along, err = takeExtentRead(p[list:], a.Reads.Total())
	}
	return a, err
}

// ArenaWords are the words of a parsed AwaitArena request: a view of its payload.
type ArenaWords struct{ p []byte }

// Len is the number of words.
func (ws ArenaWords) Len() int { return len(ws.p) / awaitEntry }

// At is word i of Len.
func (ws ArenaWords) At(i int) ArenaWord {
	e := ws.p[i*awaitEntry:][:awaitEntry]
	return ArenaWord{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[awaitOffValue:])}
}

// AppendTo appends ws to a copy that outlives the payload.
func (ws ArenaWords) AppendTo(dst []ArenaWord) []ArenaWord {
	for i := range ws.Len() {
		dst = append(dst, ws.At(i))
	}
	return dst
}

// AppendTo appends rs to a copy that outlives the payload.
func (rs ArenaReads) AppendTo(dst []ArenaRead) []ArenaRead {
	for i := range rs.Len() {
		dst = append(dst, rs.At(i))
	}
	return dst
}
