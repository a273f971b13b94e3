package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/follow"
)

// intake is an input of append, and where it goes on.
type intake struct {
	feed   feed
	from   uint64 // where the next byte has to lie
	fixed  bool   // every byte has its position: this input can be resumed
	inLine bool   // what is appended already ends inside a line
	size   int64  // bytes to come; 0: nobody knows
	closers
	rotations, truncations atomic.Uint64
}

type closers []io.Closer

func (c closers) close() {
	for _, one := range c {
		one.Close()
	}
}

// intake opens the input and finds where it goes on in s.
func (c *appendCmd) intake(p *process, s sink) (in *intake, err error) {
	in = &intake{from: s.length()}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	var kept *placeFile
	if c.Resume {
		if kept, err = c.place(p); err != nil {
			return in, err
		}
		in.closers = append(in.closers, kept.lock)
		in.fixed = true
	}
	if c.Follow != "" {
		return in, c.follow(p, in, s, kept)
	}
	file, isFile := p.stdin.(*os.File)
	if c.File != "" {
		if file, err = os.Open(c.File); err != nil {
			return in, err
		}
		in.closers, isFile = append(in.closers, file), true
	}
	if !isFile {
		in.feed = reading(p.stdin)
		return in, nil
	}
	in.feed = reading(file)
	if i, err := file.Stat(); err == nil && i.Mode().IsRegular() {
		in.size = i.Size()
	}
	if kept == nil {
		return in, nil
	}
	return in, in.resume(p, file, s, kept, place{Shard: c.Shard.String(), Input: c.inputName(p)})
}

// inputName is what the input is called: its path, or what standard input is.
func (c *appendCmd) inputName(p *process) string {
	name := c.File
	if c.Follow != "" {
		name = c.Follow
	}
	if name != "" {
		if abs, err := filepath.Abs(name); err == nil {
			return abs
		}
		return name
	}
	if f, ok := p.stdin.(*os.File); ok {
		if i, err := follow.Identify(f); err == nil {
			return fmt.Sprintf("stdin:%d:%d", i.Dev, i.Ino)
		}
	}
	return "stdin"
}

func (c *appendCmd) place(p *process) (*placeFile, error) {
	path := c.State
	if path == "" {
		store, err := c.storeName()
		if err != nil {
			return nil, err
		}
		if path, err = placePath(c.inputName(p), c.Shard.String(), store); err != nil {
			return nil, err
		}
	}
	return openPlace(path)
}

// storeName tells stores apart: the same input may be appended to several.
func (c *appendCmd) storeName() (string, error) {
	switch {
	case c.Dir != "":
		return c.Dir, nil
	case c.Cluster != "":
		return filepath.Abs(c.Cluster)
	}
	return c.where().address(), nil
}

// compared is how much of what was appended last is compared with the input
// before it goes on.
const compared = 64 << 10

// appendedTail returns the last bytes of a shard of the given length, from base on.
func appendedTail(ctx context.Context, s sink, base, length uint64) ([]byte, error) {
	tail := make([]byte, min(length-base, compared))
	if len(tail) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	n, err := s.readAt(ctx, length-uint64(len(tail)), tail)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < len(tail) {
		return nil, fmt.Errorf("%w: %d of %d bytes before %d", io.ErrUnexpectedEOF, n, len(tail), length)
	}
	return tail, nil
}

// resume goes on in a file behind what is durable of it, or notes where it begins.
func (in *intake) resume(ctx context.Context, file *os.File, s sink, kept *placeFile, now place) error {
	i, err := follow.Identify(file)
	if err != nil {
		return fmt.Errorf("%w: --resume needs a regular file as input: %w", errUsage, err)
	}
	now.Dev, now.Ino, now.Base = i.Dev, i.Ino, s.length()
	was, found, err := kept.load()
	if err != nil {
		return err
	}
	if !found {
		_, err := file.Seek(0, io.SeekStart)
		return errors.Join(err, kept.save(now))
	}
	if in.from < was.Base {
		return fmt.Errorf("%w: it ends at %d, the input began at %d; remove %s to append the input from its beginning", errOtherInput, in.from, was.Base, kept.path)
	}
	off := int64(in.from - was.Base)
	tail, err := appendedTail(ctx, s, was.Base, in.from)
	if err != nil {
		return err
	}
	have := make([]byte, len(tail))
	if n, _ := file.ReadAt(have, off-int64(len(tail))); n < len(tail) || !bytes.Equal(have, tail) {
		return fmt.Errorf("%w: the %d bytes before %d are not those of the input before its offset %d; was it changed, or has another writer appended? Remove %s to append the input from its beginning",
			errOtherInput, len(tail), in.from, off, kept.path)
	}
	in.inLine = len(tail) > 0 && tail[len(tail)-1] != '\n'
	in.size -= off
	_, err = file.Seek(off, io.SeekStart)
	return err
}

// follow makes a followed path the input.
func (c *appendCmd) follow(p *process, in *intake, s sink, kept *placeFile) error {
	name := c.inputName(p)
	cfg := follow.Config{Path: name, FS: follow.OS{}, RotateWait: max(c.RotateWait, 1)}
	f := follow.New(cfg)
	if kept != nil {
		was, found, err := kept.load()
		if err != nil {
			return err
		}
		if found {
			if f, err = in.refollow(p, cfg, s, was, kept); err != nil {
				return err
			}
		}
	}
	in.closers = append(in.closers, f)
	note := func(id follow.ID) func(uint64) error {
		return func(at uint64) error {
			if kept == nil {
				return nil
			}
			return kept.save(place{Shard: c.Shard.String(), Input: name, Dev: id.Dev, Ino: id.Ino, Base: at})
		}
	}
	in.feed = in.following(f, note, p.log)
	return nil
}

// refollow goes on in the file that was followed before, wherever it is now.
func (in *intake) refollow(p *process, cfg follow.Config, s sink, was place, kept *placeFile) (*follow.Follower, error) {
	if in.from < was.Base {
		return nil, fmt.Errorf("%w: it ends at %d, the file began at %d; remove %s to append the file from its beginning", errOtherInput, in.from, was.Base, kept.path)
	}
	tail, err := appendedTail(p, s, was.Base, in.from)
	if err != nil {
		return nil, err
	}
	in.inLine = len(tail) > 0 && tail[len(tail)-1] != '\n'
	mark := follow.Mark{ID: was.id(), Offset: int64(in.from - was.Base), Tail: tail}
	f, err := follow.Resume(cfg, mark)
	if errors.Is(err, follow.ErrLost) && len(tail) > 1 && !in.inLine {
		// The last line of a file that had ended may have got its end from us.
		mark.Offset, mark.Tail = mark.Offset-1, tail[:len(tail)-1]
		if ended, again := follow.Resume(cfg, mark); again == nil {
			return ended, nil
		}
	}
	if errors.Is(err, follow.ErrLost) {
		if mark.Offset > 0 {
			p.log.Error("the rest of a file that was followed is lost: rotated away, changed or removed meanwhile", "path", cfg.Path, "offset", in.from-was.Base, "err", err)
			in.truncations.Add(1)
		}
		err = nil
	}
	return f, err
}

// How often a followed file is looked at: the sooner, the more recently something
// came. Two system calls each time.
const (
	pollMin = 10 * time.Millisecond
	pollMax = 250 * time.Millisecond
	// troubleMax is for a file that cannot be opened or read.
	troubleMax = 2 * time.Second
)

// following is a follower as a feed. begin is called for each file.
func (in *intake) following(f *follow.Follower, begin func(follow.ID) func(uint64) error, log *slog.Logger) feed {
	said := ""
	return func(ctx context.Context, buf []byte) (int, func(uint64) error, error) {
		for wait := pollMin; ; {
			e := f.Next(time.Now(), buf)
			if e.Kind != follow.Idle {
				said = ""
			}
			switch e.Kind {
			case follow.Data:
				return e.N, nil, nil
			case follow.Begin:
				return 0, begin(e.ID), nil
			case follow.End:
				in.ended(e.Why, log)
				return 0, func(uint64) error { return nil }, nil
			}
			limit := pollMax
			if e.Err != nil {
				if errors.Is(e.Err, follow.ErrNotRegular) {
					return 0, nil, e.Err
				}
				if limit = troubleMax; e.Err.Error() != said {
					said = e.Err.Error()
					log.Warn("waiting for the file", "err", e.Err)
				}
			}
			if !pause(ctx, wait) {
				return 0, nil, ctx.Err()
			}
			wait = min(2*wait, limit)
		}
	}
}

func (in *intake) ended(why follow.Why, log *slog.Logger) {
	switch why {
	case follow.Rotated:
		in.rotations.Add(1)
	case follow.Copied:
		in.rotations.Add(1)
		log.Warn("the file was truncated; its copy was read to the end, what was written between copy and truncation is lost")
	default:
		in.truncations.Add(1)
		log.Warn("the file was truncated or replaced, and no copy was found: what was not read before is lost", "how", why.String())
	}
}

// pause waits, and says whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
