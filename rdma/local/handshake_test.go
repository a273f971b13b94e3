package local

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenRequest(t *testing.T) {
	want := unhex(t, `
		52 4d 41 54 53 48 4d 01  # 0  magic "RMATSHM\x01"
		01 00 00 00              # 8  version 1
		05 00 00 00              # 12 bytes of the ticket
		08 07 06 05 04 03 02 01  # 16 epoch`)
	r := request{version: 1, epoch: 0x0102030405060708, ticket: 5}
	if got := r.encode(); !bytes.Equal(got, want) {
		t.Errorf("request\n%x, want\n%x", got, want)
	}
	if back, err := parseRequest(want); err != nil || back != r {
		t.Errorf("parsed %+v, %v", back, err)
	}
}

func TestGoldenAnswer(t *testing.T) {
	want := unhex(t, `
		52 4d 41 54 53 48 4d 01  # 0  magic
		01 00 00 00              # 8  version 1
		00 00 00 00              # 12 status ok
		08 07 06 05 04 03 02 01  # 16 epoch
		00 40 11 00 00 00 00 00  # 24 arena size 1,130,496
		00 00 20 00 00 00 00 00  # 32 file size 2,097,152`)
	a := answer{version: 1, epoch: 0x0102030405060708, size: 1130496, fileSize: 2 << 20}
	if got := a.encode(); !bytes.Equal(got, want) {
		t.Errorf("answer\n%x, want\n%x", got, want)
	}
	for _, epoch := range []uint64{0, a.epoch} {
		if back, err := parseAnswer(want, epoch); err != nil || back != a {
			t.Errorf("parsed %+v, %v", back, err)
		}
	}
}

func TestAnswerRefusals(t *testing.T) {
	good := answer{version: 1, epoch: 7, size: 4096, fileSize: 8192}
	for _, c := range []struct {
		name string
		edit func(a *answer)
		want error
	}{
		{"version", func(a *answer) { a.version = 2 }, ErrVersion},
		{"version and status", func(a *answer) { a.version, a.status = 2, statusVersion }, ErrVersion},
		{"busy", func(a *answer) { a.status = statusBusy }, ErrBusy},
		{"epoch by status", func(a *answer) { a.status = statusEpoch }, ErrEpoch},
		{"epoch", func(a *answer) { a.epoch = 8 }, ErrEpoch},
		{"unknown status", func(a *answer) { a.status = 99 }, ErrHandshake},
		{"no size", func(a *answer) { a.size = 0 }, ErrSize},
		{"larger than its file", func(a *answer) { a.size = 8193 }, ErrSize},
		{"unmappable", func(a *answer) { a.size, a.fileSize = 1<<63, 1<<63 }, ErrSize},
	} {
		a := good
		c.edit(&a)
		if got, err := parseAnswer(a.encode(), 7); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	zero := good
	zero.epoch = 0
	if got, err := parseAnswer(zero.encode(), 0); !errors.Is(err, ErrSize) {
		t.Errorf("no epoch: %+v, %v", got, err)
	}
	b := good.encode()
	b[0] = 'X'
	for _, b := range [][]byte{nil, b, b[:39], make([]byte, answerSize)} {
		if got, err := parseAnswer(b, 0); !errors.Is(err, ErrHandshake) {
			t.Errorf("%x: %+v, %v", b, got, err)
		}
		if got, err := parseRequest(b); !errors.Is(err, ErrHandshake) {
			t.Errorf("%x: %+v, %v", b, got, err)
		}
	}
}

func TestDecide(t *testing.T) {
	serves := answer{version: version, epoch: 7, size: 1, fileSize: 1}
	for _, c := range []struct {
		r    request
		want status
	}{
		{request{version: version, epoch: 7}, statusOK},
		{request{version: version, epoch: 0}, statusOK},
		{request{version: version, epoch: 8}, statusEpoch},
		{request{version: version + 1, epoch: 7}, statusVersion},
		{request{version: version + 1, epoch: 8}, statusVersion},
	} {
		if got := c.r.decide(serves); got.status != c.want || got.epoch != 7 || got.version != version {
			t.Errorf("%+v: %+v, want status %d", c.r, got, c.want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(answer{version: 1, epoch: 7, size: 4096, fileSize: 8192}.encode(), uint64(7))
	f.Add(answer{version: 1, status: statusBusy, epoch: 7, size: 1, fileSize: 1}.encode(), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, epoch uint64) {
		a, err := parseAnswer(b, epoch)
		if err != nil {
			return
		}
		if a.status != statusOK || a.epoch == 0 || epoch != 0 && a.epoch != epoch || a.size == 0 || a.size > a.fileSize || a.fileSize > maxMapping {
			t.Fatalf("accepted %+v", a)
		}
		if !bytes.Equal(a.encode(), b) {
			t.Fatalf("%x reads as %+v", b, a)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add(request{version: 1, epoch: 7, ticket: 26}.encode())
	f.Add(request{version: 1, ticket: MaxTicket + 1}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(b)
		if err != nil {
			return
		}
		if r.ticket < 0 || r.ticket > MaxTicket {
			t.Fatalf("accepted %+v", r)
		}
		if !bytes.Equal(r.encode(), b) {
			t.Fatalf("%x reads as %+v", b, r)
		}
	})
}
