package file

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watch tells of changes in the directories of a file: of the name that it goes by,
// and of what that is a link to. Not of the file itself, which is gone when another
// is renamed to its name. A nil watch tells nothing.
type watch struct {
	path string // absolute
	w    *fsnotify.Watcher
	tick chan struct{} // holds a change that nobody has taken
	done chan struct{} // closed when filter has ended
}

func newWatch(path string) (*watch, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("file watch: %w", err)
	}
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("file watch: %w", err)
	}
	w := &watch{path: path, w: n, tick: make(chan struct{}, 1), done: make(chan struct{})}
	if err := w.renew(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	go w.filter()
	return w, nil
}

// renew watches the directories of today: links may have changed, and a directory
// that was made again is another one.
func (w *watch) renew() error {
	if w == nil {
		return nil
	}
	err := w.w.Add(filepath.Dir(w.path))
	if real, linkErr := filepath.EvalSymlinks(w.path); linkErr == nil && err == nil && filepath.Dir(real) != filepath.Dir(w.path) {
		err = w.w.Add(filepath.Dir(real))
	}
	if err != nil {
		return fmt.Errorf("file watch: %w", err)
	}
	return nil
}

// filter passes on what may concern the file. It ends with the watcher.
func (w *watch) filter() {
	defer close(w.done)
	for {
		select {
		case e, ok := <-w.w.Events:
			if !ok {
				return
			}
			if e.Op == fsnotify.Chmod || !w.concerns(e.Name) {
				continue
			}
		case _, ok := <-w.w.Errors: // events were lost: look
			if !ok {
				return
			}
		}
		select {
		case w.tick <- struct{}{}:
		default:
		}
	}
}

// concerns says whether a change of name may change the file. A Kubernetes volume
// swaps the link ..data in a file's directory.
func (w *watch) concerns(name string) bool {
	if name == w.path || filepath.Base(name) == "..data" {
		return true
	}
	real, err := filepath.EvalSymlinks(w.path)
	return err == nil && name == real
}

func (w *watch) changes() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.tick
}

func (w *watch) close() {
	if w == nil {
		return
	}
	_ = w.w.Close() // nothing is lost by what it may say
	<-w.done
}
