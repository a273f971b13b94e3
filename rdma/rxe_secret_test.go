package rdma

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// lines are log lines of several goroutines.
type lines struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Buffer.String()
}

// shows says in which writing a text has a key; empty: in none. Short numbers would
// be found by chance, so keys are padded or have their width.
func shows(text string, key uint32) string {
	text = strings.ToLower(text)
	for _, w := range []string{fmt.Sprintf("%d", key), fmt.Sprintf("%x", key), fmt.Sprintf("%08x", key)} {
		for at := 0; ; {
			i := strings.Index(text[at:], w)
			if i < 0 {
				break
			}
			begin, end := at+i, at+i+len(w)
			at = end
			if (begin == 0 || !hexDigit(text[begin-1])) && (end == len(text) || !hexDigit(text[end])) {
				return text[max(0, begin-40):min(len(text), end+20)]
			}
		}
	}
	return ""
}

func hexDigit(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func TestShows(t *testing.T) {
	for _, text := range []string{"rkey=43981", "key abcd.", "0000ABCD", "rkey:43981,"} {
		if shows(text, 0xabcd) == "" {
			t.Errorf("%q: not found", text)
		}
	}
	if at := shows("1439812 fabcd abcdef", 0xabcd); at != "" {
		t.Errorf("found in %q", at)
	}
}

// TestRxeNoKeyIsShown: neither log lines, at the level of debugging, nor errors of
// both ends show the key of a registration, whatever becomes of it: connections that
// work and that fail, answers that are bent, new keys, and the end.
func TestRxeNoKeyIsShown(t *testing.T) {
	from, to := requireRxe(t)
	var log lines
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	near, far := from.config(t), to.config(t)
	near.Logger, far.Logger = logger, logger
	e := newRxeExport(t, far, 1<<20)
	keys := map[uint32]bool{}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	session := func(change func(*answer), read uint64, n int) {
		c, r, err := tryConnect(t, near, e, func(a *answer) {
			keys[a.rkey] = true
			if change != nil {
				change(a)
				keys[a.rkey] = true
			}
		})
		note(err)
		if err != nil {
			return
		}
		b := newBatch(t, c, n)
		if p := b.Add(read, n); p != nil {
			note(b.Do(soon()))
		}
		b.Release()
		note(c.Err())
		note(c.Close())
		note(r.Close())
	}
	session(nil, 0, 4096)
	note(e.Reregister())
	session(nil, 4096, 4096)
	session(func(a *answer) { a.rkey ^= 0x5a }, 0, 4096)   // REM_ACCESS_ERR
	session(func(a *answer) { a.base += 1 << 20 }, 0, 256) // out of range
	session(func(a *answer) { a.echo++ }, 0, 64)           // another offer's answer
	session(func(a *answer) { a.length = 0 }, 0, 64)
	session(func(a *answer) { a.pathMTU = 7 }, 0, 64)
	failures := 0
	for _, err := range errs {
		if err != nil {
			failures++
			fmt.Fprintln(&log, err)
			fmt.Fprintf(&log, "%+v %#v\n", err, err)
		}
	}
	text := log.String()
	if failures < 4 || !strings.Contains(text, "rdma peer accepted") {
		t.Errorf("%d failures, log of %d bytes: nothing was looked at", failures, len(text))
	}
	if len(keys) < 3 {
		t.Errorf("%d keys", len(keys))
	}
	for key := range keys {
		if at := shows(text, key); at != "" {
			t.Error("a key is shown: ", at)
		}
	}
	t.Logf("report: %d keys of memory, none in %d bytes of log and errors", len(keys), len(text))
}
