package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/fallback/wire"
)

// model is a node with one shard, and a network that changes the order of
// requests, loses answers, and delivers requests of lost connections late.
type model struct {
	shard   []byte
	network []*request
}

type request struct {
	e    *entry
	off  uint64
	data []byte
}

func (m *model) carryOut(r *request) error {
	if r.off != uint64(len(m.shard)) {
		return &wire.Error{Status: wire.StatusOffset, Arg0: uint64(len(m.shard)), Arg1: r.off}
	}
	m.shard = append(m.shard, r.data...)
	return nil
}

func (m *model) read(pos uint64, p []byte) error {
	if copy(p, m.shard[min(pos, uint64(len(m.shard))):]) < len(p) {
		return errors.New("short")
	}
	return nil
}

var errNoAnswer = errors.New("no answer")

// TestWindowAppendsEverythingOnce sends batches through the model, with and
// without another writer, and with a second process that takes over where bytes
// have fixed positions.
func TestWindowAppendsEverythingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{}
		fixed := rapid.Bool().Draw(t, "fixed")
		foreign := !fixed && rapid.Bool().Draw(t, "another writer")
		depth := maxFlying
		if foreign {
			depth = 1
		}
		var input, durable, strange []byte
		w := newWindow(0, 60, fixed)
		line := 0
		setDepth := func() { w.depth = min(w.depth, depth) }
		type sent struct {
			r   *request
			err error
			has bool
		}
		var flying []*sent // in the order of sending
		done := func(b *batch, pos uint64) {
			if !bytes.Equal(m.shard[pos:pos+uint64(len(b.data))], b.data) {
				t.Fatalf("%q is not at %d of %q", b.data, pos, m.shard)
			}
			durable = append(durable, b.data...)
		}
		push := func(data []byte) {
			w.push(&batch{data: data})
		}
		step := func(t *rapid.T) {
			setDepth()
			for e := w.send(); e != nil; e = w.send() {
				r := &request{e: e, off: e.off, data: bytes.Clone(e.b.data)}
				m.network = append(m.network, r)
				flying = append(flying, &sent{r: r})
				setDepth()
			}
		}
		arrive := func(i int) {
			r := m.network[i]
			m.network = append(m.network[:i], m.network[i+1:]...)
			err := m.carryOut(r)
			for _, s := range flying {
				if s.r == r && !s.has {
					s.err, s.has = err, true
				}
			}
		}
		answer := func() {
			for len(flying) > 0 && flying[0].has {
				s := flying[0]
				flying = flying[1:]
				if b := w.answer(s.r.e, s.err, errors.Is(s.err, errNoAnswer)); b != nil {
					done(b, s.r.off)
				}
			}
			if w.failure != nil && len(flying) == 0 {
				if err := w.resolve(uint64(len(m.shard)), m.read, done); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if w.room() {
					line++
					data := fmt.Appendf(nil, "%d%s\n", line, bytes.Repeat([]byte("-"), rapid.IntRange(0, 9).Draw(t, "length")))
					input = append(input, data...)
					push(data)
				}
			},
			"send": step,
			"arrive": func(t *rapid.T) {
				if len(m.network) > 0 {
					// Overtaking is rarer than order.
					i := 0
					if rapid.IntRange(0, 3).Draw(t, "overtake") == 0 {
						i = rapid.IntRange(0, len(m.network)-1).Draw(t, "which")
					}
					arrive(i)
				}
			},
			"answer": func(t *rapid.T) { answer() },
			"lost": func(t *rapid.T) { // the connection; what was sent may arrive yet
				for _, s := range flying {
					if !s.has || rapid.Bool().Draw(t, "answer lost") {
						s.err, s.has = errNoAnswer, true
					}
				}
				answer()
			},
			"foreign": func(t *rapid.T) {
				if foreign {
					s := []byte("strange\n")
					strange = append(strange, s...)
					m.shard = append(m.shard, s...)
				}
			},
			"another process": func(t *rapid.T) {
				if !fixed {
					return
				}
				at := len(m.shard)
				flying, durable = nil, bytes.Clone(input[:at])
				w = newWindow(uint64(at), 60, true)
				for rest := input[at:]; len(rest) > 0; { // it cuts otherwise
					n := min(len(rest), rapid.IntRange(1, 20).Draw(t, "cut"))
					push(bytes.Clone(rest[:n]))
					rest = rest[n:]
				}
			},
		})
		for i := 0; len(w.entries) > 0; i++ {
			if i > 10_000 {
				t.Fatalf("no end: %d left, %v", len(w.entries), w.failure)
			}
			step(t)
			for len(m.network) > 0 {
				arrive(0)
			}
			answer()
		}
		got := bytes.ReplaceAll(m.shard, []byte("strange\n"), nil)
		if !bytes.Equal(got, input) || !bytes.Equal(durable, input) || len(m.shard) != len(input)+len(strange) {
			t.Fatalf("shard  %q\nwant   %q\ndurable %q", m.shard, input, durable)
		}
	})
}

func TestWindowNoticesThatOrderIsLost(t *testing.T) {
	w := newWindow(0, 100, false)
	w.push(&batch{data: []byte("aaaa")})
	w.push(&batch{data: []byte("bbbb")})
	a, b := w.send(), w.send()
	shard := []byte("xxxxbbbb") // another writer took a's place
	w.answer(a, &wire.Error{Status: wire.StatusOffset, Arg0: 4}, false)
	w.answer(b, nil, false)
	m := &model{shard: shard}
	err := w.resolve(8, m.read, func(b *batch, pos uint64) { t.Errorf("%q is said to be at %d", b.data, pos) })
	if !errors.Is(err, errOrder) {
		t.Errorf("got %v", err)
	}
}

func TestWindowOfFixedPositionsRefusesStrangers(t *testing.T) {
	w := newWindow(0, 100, true)
	w.push(&batch{data: []byte("aaaa")})
	w.answer(w.send(), &wire.Error{Status: wire.StatusOffset, Arg0: 2}, false)
	m := &model{shard: []byte("ax")}
	if err := w.resolve(2, m.read, nil); !errors.Is(err, errForeign) {
		t.Errorf("got %v", err)
	}
}

func TestWindowGoesOnWhenBytesWereTakenBack(t *testing.T) {
	w := newWindow(100, 100, false)
	w.push(&batch{data: []byte("aaaa")})
	w.answer(w.send(), errNoAnswer, true)
	m := &model{shard: make([]byte, 60)}
	var gone *takenBack
	if err := w.resolve(60, m.read, nil); !errors.As(err, &gone) || gone.bytes != 40 {
		t.Fatalf("got %v", err)
	}
	if e := w.send(); e == nil || e.off != 60 {
		t.Errorf("goes on with %+v, want 60", e)
	}
}
