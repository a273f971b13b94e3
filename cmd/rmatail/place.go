package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/follow"
)

var (
	// errPlaceBusy is returned when another process appends the same input.
	errPlaceBusy = errors.New("another append of this input runs")
	// errOtherInput is returned by --resume when the shard does not hold the input
	// where it should.
	errOtherInput = errors.New("the shard does not hold this input")
)

// place is where an input lies in a shard: its byte at offset x lies at Base+x.
// That, and not a count of what was appended, is what --resume remembers: how
// much of the input is durable is then told by the shard's length alone, so that
// the two cannot disagree.
//
// It is written before the first byte of a file is sent, and after all of the
// file before it is durable. A crash before that finds the old place, and the
// old file complete; a crash after it finds the new file with nothing, or
// something, of it appended.
type place struct {
	Version int    `json:"version"`
	Shard   string `json:"shard"`
	Input   string `json:"input"`
	Dev     uint64 `json:"dev"`
	Ino     uint64 `json:"ino"`
	Base    uint64 `json:"base"`
}

const placeVersion = 1

func (p place) id() follow.ID { return follow.ID{Dev: p.Dev, Ino: p.Ino} }

// placeFile keeps a place. Only one process has it at a time: as long as lock, which
// whoever opened it closes, is open.
type placeFile struct {
	path string
	lock *os.File
}

// openPlace takes the file for this process.
func openPlace(path string) (*placeFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("state of --resume: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state of --resume: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: it holds %s.lock", errPlaceBusy, path)
		}
		return nil, fmt.Errorf("lock of %s: %w", path, err)
	}
	return &placeFile{path, lock}, nil
}

// load returns the place, if there is one.
func (f *placeFile) load() (p place, found bool, err error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return place{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && p.Version != placeVersion {
		err = fmt.Errorf("version %d, want %d", p.Version, placeVersion)
	}
	if err != nil {
		return place{}, false, fmt.Errorf("state of --resume, %s (remove it to append the input from its beginning): %w", f.path, err)
	}
	return p, true, nil
}

// save replaces the place. After a crash the old or the new one is there.
func (f *placeFile) save(p place) (err error) {
	p.Version = placeVersion
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	next := f.path + ".new"
	defer func() {
		if err != nil {
			err = fmt.Errorf("state of --resume: %w", errors.Join(err, os.Remove(next)))
		}
	}()
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, f.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// placePath is where the place of an input is kept unless told otherwise: one
// file for each input, shard and store.
func placePath(input, shard, store string) (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%w: no directory for the state of --resume (%w): name a file with --state", errUsage, err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	key := sha256.Sum256([]byte(strings.Join([]string{input, shard, store}, "\x00")))
	return filepath.Join(dir, "rmatail", "append", fmt.Sprintf("%s-%x.json", strings.ReplaceAll(shard, "/", "-"), key[:8])), nil
}
