package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/rmatail/rmatail/reader"
)

// maxLine bounds what JSON output holds of one line; a longer line comes in
// pieces.
const maxLine = 1 << 20

// record is one line of JSON output. Its keys are an interface.
type record struct {
	Shard    string  `json:"shard"`
	Position uint64  `json:"position"`
	Source   string  `json:"source"`
	Data     *string `json:"data,omitempty"`
	Base64   []byte  `json:"base64,omitempty"` // instead of data when it is not UTF-8
	Partial  bool    `json:"partial,omitempty"`
}

// records writes a shard's bytes as they come, cut into records.
type records struct {
	shard string
	pos   uint64 // of the next byte
	limit uint64 // records; 0: none
	count uint64
	out   *bufio.Writer
	json  *json.Encoder // nil: raw
	line  []byte        // unfinished, JSON only
	from  string        // source of its last byte
}

func newRecords(shard string, pos, limit uint64, out *bufio.Writer, asJSON bool) *records {
	r := &records{shard: shard, pos: pos, limit: limit, out: out}
	if asJSON {
		r.json = json.NewEncoder(out)
		r.json.SetEscapeHTML(false)
	}
	return r
}

// position is behind the last byte that was written as part of a whole record,
// or as it is.
func (r *records) position() uint64 { return r.pos - uint64(len(r.line)) }

// add takes the next bytes. full is true when the limit is reached.
func (r *records) add(data []byte, from reader.Source) (full bool, err error) {
	r.from = from.String()
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		n := i + 1
		if i < 0 {
			n = len(data)
		}
		if err := r.piece(data[:n], i >= 0); err != nil {
			return false, err
		}
		data = data[n:]
		if i >= 0 {
			if r.count++; r.limit > 0 && r.count >= r.limit {
				return true, nil
			}
		}
	}
	return false, nil
}

// piece takes a line or a part of one.
func (r *records) piece(p []byte, ends bool) error {
	r.pos += uint64(len(p))
	if r.json == nil {
		_, err := r.out.Write(p)
		return err
	}
	for r.line = append(r.line, p...); len(r.line) > maxLine; {
		if err := r.write(r.line[:maxLine], true); err != nil {
			return err
		}
		r.line = r.line[:copy(r.line, r.line[maxLine:])]
	}
	if !ends {
		return nil
	}
	err := r.write(r.line, false)
	r.line = r.line[:0]
	return err
}

func (r *records) write(line []byte, partial bool) error {
	rec := record{Shard: r.shard, Position: r.position(), Source: r.from, Partial: partial}
	if !partial {
		line = line[:len(line)-1]
	}
	if utf8.Valid(line) {
		text := string(line)
		rec.Data = &text
	} else {
		rec.Base64 = line
	}
	return r.json.Encode(rec)
}

// end writes the unfinished line, if there is one.
func (r *records) end() error {
	if len(r.line) == 0 {
		return nil
	}
	err := r.write(r.line, true)
	r.line = r.line[:0]
	return err
}
