package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestErrorMatchesItsSentinelOnly(t *testing.T) {
	seen := map[string]Status{}
	for _, s := range statuses {
		e := fmt.Errorf("far away: %w", &Error{Status: s})
		for _, other := range statuses {
			if got := errors.Is(e, other.sentinel()); got != (s == other) {
				t.Errorf("status %d matches the sentinel of %d: %v", s, other, got)
			}
		}
		if prev, dup := seen[s.String()]; dup {
			t.Errorf("statuses %d and %d both read %q", s, prev, s)
		}
		seen[s.String()] = s
	}
	if len(statuses) != int(StatusForbidden) {
		t.Errorf("%d statuses listed, %d exist", len(statuses), StatusForbidden)
	}
	if got := Status(200).String(); got != "status 200" {
		t.Errorf("unknown status reads %q", got)
	}
	if errors.Is(&Error{Status: 200}, nil) {
		t.Error("unknown status matches nil")
	}
}

func TestRemoteDeadlineIsADeadline(t *testing.T) {
	if !errors.Is(&Error{Status: StatusDeadline}, os.ErrDeadlineExceeded) || errors.Is(&Error{Status: StatusBusy}, os.ErrDeadlineExceeded) {
		t.Error("only StatusDeadline matches os.ErrDeadlineExceeded")
	}
}

func TestErrorOf(t *testing.T) {
	gone := &Error{Status: StatusOutOfRetention, Arg0: 3, Arg1: 9}
	for _, c := range []struct {
		err  error
		want Error
	}{
		{gone, *gone},
		{fmt.Errorf("read: %w", gone), Error{StatusOutOfRetention, 3, 9, "read: " + gone.Error()}},
		{fmt.Errorf("web/0001: %w", ErrUnknownShard), Error{Status: StatusUnknownShard, Message: "web/0001: unknown shard"}},
		{errors.New("x"), Error{Status: StatusInternal, Message: "x"}},
		{context.DeadlineExceeded, Error{Status: StatusDeadline, Message: "context deadline exceeded"}},
		{os.ErrDeadlineExceeded, Error{Status: StatusDeadline, Message: "i/o timeout"}},
	} {
		if got := ErrorOf(c.err); *got != c.want {
			t.Errorf("%v: got %+v", c.err, *got)
		}
	}
	if ErrorOf(nil) != nil {
		t.Error("ErrorOf(nil) is not nil")
	}
}

func TestErrorReplyRoundTrip(t *testing.T) {
	req := Header{Op: OpAppend, ID: 9}
	for _, s := range statuses {
		in := &Error{Status: s, Arg0: 1, Arg1: 2, Message: "why"}
		b := AppendError(nil, req, in)
		h, err := ParseHeader(b)
		if err != nil || h.Op != OpAppend || h.ID != 9 || h.Status != s || int(h.Length) != len(b)-HeaderLen {
			t.Fatalf("header %+v, %v", h, err)
		}
		if out, err := ParseError(h.Status, b[HeaderLen:]); err != nil || *out != *in {
			t.Errorf("got %+v, %v", out, err)
		}
	}
}

func TestLongMessageIsCutOnARune(t *testing.T) {
	for n := range 5 {
		b := AppendError(nil, Header{}, &Error{Status: StatusBusy, Message: strings.Repeat("x", n) + strings.Repeat("\u20ac", 400)})
		e, err := ParseError(StatusBusy, b[HeaderLen:])
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Message) > MaxMessage || len(e.Message) <= MaxMessage-utf8.UTFMax || !utf8.ValidString(e.Message) {
			t.Errorf("message of %d B, valid %v", len(e.Message), utf8.ValidString(e.Message))
		}
	}
}

func TestRefusalWithoutAnErrorIsStillARefusal(t *testing.T) {
	for _, err := range []error{nil, &Error{}} {
		h, perr := ParseHeader(AppendError(nil, Header{Op: OpPing}, err))
		if perr != nil || h.Status != StatusInternal {
			t.Errorf("status %v, %v", h.Status, perr)
		}
	}
}
