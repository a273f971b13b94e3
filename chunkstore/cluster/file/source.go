package file

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// Options of a Source. The zero value is usable.
type Options struct {
	// Settle is how long the file must rest after a change before it is taken, as it
	// may be written in several steps; 10 times as long at most. 100 ms.
	Settle time.Duration
	// Poll is how often the file is looked at when no change was noticed: network file
	// systems do not tell of changes made elsewhere. 10 s.
	Poll   time.Duration
	Logger *slog.Logger // nil: nothing is logged
}

// Source is a cluster.Source that follows a file. A new file counts when it is
// right as a whole: one with mistakes is logged, once, and the View stays as it is.
// Any number of goroutines may use it.
type Source struct {
	path    string
	options Options
	log     *slog.Logger
	asked   chan chan error // Reload's, answered by run
	stop    chan struct{}
	stopped func()
	done    chan struct{} // closed when run has ended

	// What run alone uses.
	data    []byte // content of the current file
	trouble string // the last error logged; empty when the file is right

	mu struct {
		sync.Mutex
		file    *Cluster
		view    *cluster.View
		changed chan struct{} // closed when view is replaced
	}
}

// Open reads a file and follows it until Close. Errors of its content match
// cluster.ErrInvalid.
func Open(path string, o Options) (*Source, error) {
	s, err := load(path, o)
	if err != nil {
		return nil, err
	}
	w, err := newWatch(path)
	if err != nil {
		s.log.Warn("cluster file: changes are noticed by looking only", "path", path, "every", s.options.Poll, "err", err)
	}
	go s.run(w)
	return s, nil
}

// load returns a Source that does not run yet.
func load(path string, o Options) (*Source, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	v, err := cluster.NewView(c.Description)
	if err != nil {
		return nil, err
	}
	o.Settle, o.Poll = cmp.Or(o.Settle, 100*time.Millisecond), cmp.Or(o.Poll, 10*time.Second)
	s := &Source{path: path, options: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), data: data,
		asked: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{})}
	s.stopped = sync.OnceFunc(func() { close(s.stop) })
	s.mu.file, s.mu.view, s.mu.changed = c, v, make(chan struct{})
	return s, nil
}

// View implements cluster.Source.
func (s *Source) View() (*cluster.View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.view, s.mu.changed
}

// Current returns what the file said when it was right last. It is not to be changed.
func (s *Source) Current() *Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.file
}

// Reload reads the file now and reports what is wrong with it: errors match
// cluster.ErrInvalid, ErrRestart or ErrClosed, or are of the file system. The View
// then stays as it is.
func (s *Source) Reload() error {
	answer := make(chan error, 1)
	select {
	case s.asked <- answer:
		return <-answer // run answers what it has taken
	case <-s.stop:
		return ErrClosed
	}
}

// Close ends following the file; the last View stays valid. Closing twice is fine.
func (s *Source) Close() error {
	s.stopped()
	<-s.done
	return nil
}

// run owns the file until Close. w may be nil.
func (s *Source) run(w *watch) {
	defer close(s.done)
	defer w.close()
	poll := time.NewTicker(s.options.Poll)
	defer poll.Stop()
	settled := time.NewTimer(0)
	settled.Stop()
	var since time.Time // of the first change that has not been read; zero: none
	for {
		select {
		case <-s.stop:
			return
		case answer := <-s.asked:
			answer <- s.reload()
		case <-w.changes():
			if since.IsZero() {
				since = time.Now()
			}
			settled.Reset(max(0, min(s.options.Settle, 10*s.options.Settle-time.Since(since))))
		case <-settled.C:
			since = time.Time{}
			s.follow(w)
		case <-poll.C:
			switch {
			case !since.IsZero(): // it is about to be read
			case s.same():
				s.follow(w)
			default: // a change that nobody told of; it may be going on
				since = time.Now()
				settled.Reset(s.options.Settle)
			}
		}
	}
}

// follow reads the file, which may have changed, and logs what is wrong with it
// when that is news.
func (s *Source) follow(w *watch) {
	err := s.reload()
	if watchErr := w.renew(); err == nil && watchErr != nil {
		err = watchErr
	}
	switch {
	case err == nil && s.trouble != "":
		s.log.Info("cluster file is right again", "path", s.path)
		s.trouble = ""
	case err != nil && err.Error() != s.trouble:
		s.trouble = err.Error()
		s.log.Error("cluster file is not taken, all stays as it was", "path", s.path, "err", err)
	}
}

// same says whether the file has the content of the current one.
func (s *Source) same() bool {
	data, err := read(s.path)
	return err == nil && bytes.Equal(data, s.data)
}

// reload makes the file's content the current one.
func (s *Source) reload() error {
	data, err := read(s.path)
	if err != nil {
		return err
	}
	if bytes.Equal(data, s.data) {
		return nil
	}
	c, err := Parse(s.path, data)
	if err != nil {
		return err
	}
	v, err := cluster.NewView(c.Description)
	if err != nil {
		return err
	}
	old := s.Current()
	if err := cannotBecome(old, c); err != nil {
		return fmt.Errorf("cluster file %s: %w", s.path, err)
	}
	s.data = data
	s.report(old, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.file = c
	if !reflect.DeepEqual(old.Description, c.Description) {
		s.mu.view = v
		close(s.mu.changed)
		s.mu.changed = make(chan struct{})
	}
	return nil
}

// cannotBecome refuses what processes that run cannot take up.
func cannotBecome(old, c *Cluster) error {
	if old.Name != c.Name {
		return fmt.Errorf("%w: name is %q and was %q; another cluster needs other processes", ErrRestart, c.Name, old.Name)
	}
	if old.Store != c.Store {
		return fmt.Errorf("%w: store is node %q, dir %q and was node %q, dir %q; restart all processes to move the durable store", ErrRestart, c.Store.Node, c.Store.Dir, old.Store.Node, old.Store.Dir)
	}
	if old.Auth != c.Auth {
		return fmt.Errorf("%w: auth names other files than before; their content may change at any time, which files they are only with a restart", ErrRestart)
	}
	return nil
}

// report logs what a new file changes.
func (s *Source) report(old, c *Cluster) {
	var joined, left, restart []string
	for i, n := range c.Nodes {
		_, settings, known := old.Node(n.Name)
		switch {
		case !known:
			joined = append(joined, n.Name)
		case settings != c.Settings[i]:
			restart = append(restart, n.Name)
		}
	}
	for _, n := range old.Nodes {
		if _, _, known := c.Node(n.Name); !known {
			left = append(left, n.Name)
		}
	}
	slices.Sort(joined)
	slices.Sort(left)
	s.log.Info("cluster file has changed", "path", s.path, "nodes", len(c.Nodes), "joined", joined, "left", left)
	if restart != nil {
		s.log.Warn("cluster file has settings that a node takes up at its next start", "path", s.path, "nodes", restart)
	}
}
