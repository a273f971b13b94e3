package follow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// tailBytes is how many bytes before the offset tell a file from another one.
const tailBytes = 1 << 10

// minCopy is how many bytes a copy, which has nothing else in common with the
// file, must have in common at least.
const minCopy = 16

// Kind says what an Event is.
type Kind int

const (
	Idle  Kind = iota // nothing now: ask again later. Err, if set, is why
	Begin             // a file begins; Event.ID
	Data              // Event.N bytes
	End               // the file has ended; Event.Why
)

// Why says why a file has ended.
type Why int

const (
	Rotated   Why = iota // the path leads to another file, and nothing came for a while
	Truncated            // it was emptied or written anew, and its copy was not found
	Copied               // it was emptied, after its copy was read to the end
	Vanished             // the file system no longer knows it (ESTALE)
)

func (w Why) String() string {
	return [...]string{"rotated", "truncated", "truncated after its copy", "vanished"}[w]
}

// Event is what has happened.
type Event struct {
	Kind
	ID  ID    // of Begin
	N   int   // of Data
	Why Why   // of End
	Err error // of Idle
}

// Config of a Follower.
type Config struct {
	Path       string
	FS         FS
	RotateWait time.Duration // quiet time until a renamed file has ended; 0: 2 s
}

// Follower is one followed path. One goroutine at a time.
type Follower struct {
	cfg   Config
	f     File // nil: none
	id    ID   // of what began: not of a copy
	off   int64
	tail  []byte // the bytes before off, up to tailBytes
	copy  bool   // f is a copy, which does not grow
	stale bool   // f was lost, and is looked for
	quiet time.Time
	away  bool // the path leads elsewhere since quiet, or later
}

// Mark says where in which file to go on.
type Mark struct {
	ID     ID
	Offset int64
	Tail   []byte // the bytes before Offset; more are better, up to all of them
}

// New returns a Follower that begins with the file that is there, at 0.
func New(cfg Config) *Follower {
	if cfg.RotateWait == 0 {
		cfg.RotateWait = 2 * time.Second
	}
	return &Follower{cfg: cfg}
}

// Resume goes on at a mark: in the file at the path, or in one beside it that it
// was renamed or copied to. With ErrLost the Follower is as New gives it.
func Resume(cfg Config, m Mark) (*Follower, error) {
	f := New(cfg)
	f.id, f.off, f.tail = m.ID, m.Offset, m.Tail
	if err := f.find(); err != nil {
		return New(cfg), err
	}
	f.trim()
	return f, nil
}

// Offset is where in the file the Follower is.
func (f *Follower) Offset() int64 { return f.off }

// Close closes the open file.
func (f *Follower) Close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

// Next says what comes next. Bytes of Data are in buf. It does not wait.
func (f *Follower) Next(now time.Time, buf []byte) Event {
	if f.stale {
		return f.again()
	}
	if f.f == nil {
		return f.begin()
	}
	i, err := f.f.Info()
	if err != nil {
		return f.trouble(err)
	}
	if i.Size < f.off || !f.same(f.f) {
		return f.truncated()
	}
	if i.Size > f.off {
		return f.read(now, buf[:min(int64(len(buf)), i.Size-f.off)])
	}
	if f.copy {
		return f.end(Copied)
	}
	return f.atEnd(now)
}

func (f *Follower) begin() Event {
	file, err := f.cfg.FS.Open(f.cfg.Path)
	if err != nil {
		return Event{Kind: Idle, Err: err}
	}
	i, err := file.Info()
	if err != nil {
		file.Close()
		return Event{Kind: Idle, Err: err}
	}
	f.f, f.id, f.off, f.tail, f.copy, f.away = file, i.ID, 0, nil, false, false
	return Event{Kind: Begin, ID: i.ID}
}

func (f *Follower) read(now time.Time, buf []byte) Event {
	n, err := f.f.ReadAt(buf, f.off)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return f.trouble(err)
	}
	if n == 0 { // it was truncated just now
		return Event{Kind: Idle}
	}
	f.off += int64(n)
	f.tail = append(f.tail, buf[:n]...)
	f.trim()
	f.quiet = now
	return Event{Kind: Data, N: n}
}

func (f *Follower) trim() {
	if n := len(f.tail) - tailBytes; n > 0 {
		f.tail = append(f.tail[:0], f.tail[n:]...)
	}
}

// atEnd is for a file that was read to its end.
func (f *Follower) atEnd(now time.Time) Event {
	i, err := f.cfg.FS.Stat(f.cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // renamed; the new one is not there yet
		f.away = false
		return Event{Kind: Idle}
	case err != nil:
		return Event{Kind: Idle, Err: err}
	case i.ID == f.id && i.ID != (ID{}):
		f.away = false
		return Event{Kind: Idle}
	case i.ID == (ID{}) && i.Size >= f.off: // no identities here
		return Event{Kind: Idle}
	}
	if !f.away {
		f.away, f.quiet = true, now
	}
	if now.Sub(f.quiet) < f.cfg.RotateWait {
		return Event{Kind: Idle}
	}
	return f.end(Rotated)
}

// truncated looks for the copy. The file itself begins again in any case.
func (f *Follower) truncated() Event {
	if f.off > 0 {
		if file := f.copyOf(); file != nil {
			f.f.Close()
			f.f, f.copy = file, true
			return Event{Kind: Idle}
		}
	}
	return f.end(Truncated)
}

func (f *Follower) end(why Why) Event {
	f.f.Close()
	f.f = nil
	return Event{Kind: End, Why: why}
}

// trouble is for a file that cannot be read. ESTALE: the server of a network
// file system forgot it, and only its path may still lead to it.
func (f *Follower) trouble(err error) Event {
	if errors.Is(err, syscall.ESTALE) {
		f.f.Close()
		f.f, f.stale = nil, true
	}
	return Event{Kind: Idle, Err: err}
}

// again looks for a file that was lost.
func (f *Follower) again() Event {
	err := f.find()
	if errors.Is(err, ErrLost) {
		f.stale = false
		return Event{Kind: End, Why: Vanished}
	}
	f.stale = err != nil
	return Event{Kind: Idle, Err: err}
}

// find opens the file that the Follower has to go on in.
func (f *Follower) find() error {
	missing := false
	file, err := f.cfg.FS.Open(f.cfg.Path)
	switch {
	case err == nil:
		i, err := file.Info()
		if err != nil {
			file.Close()
			return err
		}
		if i.ID == f.id && i.Size >= f.off && f.same(file) {
			f.f, f.copy = file, false
			return nil
		}
		file.Close()
	case errors.Is(err, fs.ErrNotExist):
		missing = true
	default:
		return err
	}
	if file := f.renamed(); file != nil {
		f.f, f.copy = file, false
		return nil
	}
	if file := f.copyOf(); file != nil {
		f.f, f.copy = file, true
		return nil
	}
	if missing && f.off == 0 {
		return nil // nothing was read of it: whatever comes begins
	}
	return fmt.Errorf("%w: %s, at offset %d, neither there nor beside it", ErrLost, f.cfg.Path, f.off)
}

// renamed opens the file itself under another name.
func (f *Follower) renamed() File {
	return f.beside(func(i Info) bool { return i.ID == f.id && f.id != (ID{}) })
}

// copyOf opens a copy of the file.
func (f *Follower) copyOf() File {
	if f.off < minCopy {
		return nil
	}
	return f.beside(func(i Info) bool { return i.ID != f.id })
}

// beside opens the first file beside the path that likely takes and that has
// the bytes that were read.
func (f *Follower) beside(likely func(Info) bool) File {
	paths, err := f.cfg.FS.Beside(f.cfg.Path)
	if err != nil {
		return nil
	}
	for _, p := range paths {
		file, err := f.cfg.FS.Open(p)
		if err != nil {
			continue
		}
		if i, err := file.Info(); err == nil && likely(i) && i.Size >= f.off && f.same(file) {
			return file
		}
		file.Close()
	}
	return nil
}

// same says whether file has the bytes before the offset that were read.
func (f *Follower) same(file File) bool {
	have := make([]byte, len(f.tail))
	n, _ := file.ReadAt(have, f.off-int64(len(have)))
	return n == len(have) && bytes.Equal(have, f.tail)
}
