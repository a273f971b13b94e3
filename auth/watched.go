package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// maxFile bounds each file's bytes.
const maxFile = 4 << 20

// watched follows files that belong together. It looks at them, and does not wait
// to be told: certificates come by renames, links and mounts that tell nothing.
type watched struct {
	paths []string
	take  func(content [][]byte) error // nil content: the path is empty
	log   *slog.Logger
	every time.Duration
	stop  chan struct{}
	once  sync.Once
	done  chan struct{}

	mu struct {
		sync.Mutex
		content [][]byte
		trouble string // logged last; empty: all is right
	}
}

// watch reads the files and follows them until close. Paths may be empty: there is
// no such file. take is called by one goroutine at a time.
func watch(paths []string, o Options, take func(content [][]byte) error) (*watched, error) {
	w := &watched{paths: paths, take: take, log: o.Logger, every: o.Poll, stop: make(chan struct{}), done: make(chan struct{})}
	if err := w.look(); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

func (w *watched) run() {
	defer close(w.done)
	t := time.NewTicker(w.every)
	defer t.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
			w.follow()
		}
	}
}

// follow looks at the files and logs what is wrong when that is news.
func (w *watched) follow() {
	if !w.settled() {
		return
	}
	err := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.mu.trouble != "":
		w.mu.trouble = ""
		w.log.Info("authentication files are right again")
	case err != nil && err.Error() != w.mu.trouble:
		w.mu.trouble = err.Error()
		w.log.Error("authentication files are not taken, what was there before stays in force", "err", err)
	}
}

// settled says whether nobody is just writing the files: those that have changed have
// the same content for settle. The first half of a list is a list, too, and whom it
// lacks would be cut off.
func (w *watched) settled() bool {
	content, err := w.read()
	if err != nil || w.same(content) {
		return true // look says so
	}
	t := time.NewTimer(min(w.every, settle))
	defer t.Stop()
	select {
	case <-w.stop:
		return false
	case <-t.C:
	}
	again, err := w.read()
	return err != nil || equal(content, again)
}

// settle is for how long files that have changed must not change again.
const settle = 200 * time.Millisecond

// read reads all files.
func (w *watched) read() ([][]byte, error) {
	content := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		if path == "" {
			continue
		}
		var err error
		if content[i], err = readFile(path); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// same says whether that is what was taken last.
func (w *watched) same(content [][]byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return equal(content, w.mu.content)
}

func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// look takes the files if they have changed.
func (w *watched) look() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	content, err := w.read()
	if err != nil {
		return err
	}
	if equal(content, w.mu.content) {
		return nil
	}
	if err := w.take(content); err != nil {
		return err
	}
	if w.mu.content != nil {
		w.log.Info("authentication files have changed, new connections go by them")
	}
	w.mu.content = content
	return nil
}

func (w *watched) close() {
	w.once.Do(func() { close(w.stop) })
	<-w.done
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMaterial, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMaterial, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%w: %s: over %d bytes", ErrMaterial, path, maxFile)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// warnOpen logs files of secrets that others than their owner and group can read.
func warnOpen(log *slog.Logger, paths ...string) {
	for _, path := range paths {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().Perm()&0o007 != 0 {
			log.Warn("a file of secrets is open to every user of this host: chmod o-rwx", "path", path, "mode", info.Mode().Perm())
		}
	}
}

// absent says whether there is no file of a path.
func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
