package durable

import (
	"container/list"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// fdCache keeps up to a number of files open for reading, the least recently used
// ones are closed first. Idle ones are closed after a while, so that a removed
// segment gives its space back. Safe for concurrent use.
type fdCache struct {
	limit int
	idle  time.Duration

	mu struct {
		sync.Mutex
		byKey  map[fdKey]*fd
		lru    list.List // of *fd, front is newest
		timer  *time.Timer
		closed bool
		dead   []*os.File // to be closed by unlock
	}
}

const fdIdle = 30 * time.Second

// fdKey is a file of a listing, so that a new listing never meets an old file.
type fdKey struct {
	of *listing
	i  int // index of the segment; markKey
}

const markKey = -1

type fd struct {
	*os.File
	key  fdKey
	elem *list.Element // nil once out of the cache
	refs int           // reads under way; the last one closes a file that is out
	used time.Time
}

func newFDCache(limit int) *fdCache {
	c := &fdCache{limit: limit, idle: fdIdle}
	c.mu.byKey = make(map[fdKey]*fd)
	return c
}

// acquire returns the file of key, opened at path when it is not there; release
// gives it back.
func (c *fdCache) acquire(key fdKey, path func() string) (*fd, error) {
	if f, err := c.hit(key); f != nil || err != nil {
		return f, err
	}
	file, err := os.Open(path())
	if err != nil {
		return nil, err
	}
	if f, err := c.hit(key); f != nil || err != nil { // somebody else was faster
		file.Close()
		return f, err
	}
	c.mu.Lock()
	defer c.unlock()
	f := &fd{File: file, key: key, refs: 1, used: time.Now()}
	if c.mu.closed || c.mu.byKey[key] != nil {
		return f, nil // out of the cache from the beginning
	}
	f.elem = c.mu.lru.PushFront(f)
	c.mu.byKey[key] = f
	for e := c.mu.lru.Back(); e != nil && c.mu.lru.Len() > c.limit; {
		e, _ = e.Prev(), c.drop(e)
	}
	if c.mu.timer == nil {
		c.mu.timer = time.AfterFunc(c.idle, c.sweep)
	}
	return f, nil
}

func (c *fdCache) hit(key fdKey) (*fd, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, fmt.Errorf("%w: store is closed", wire.ErrClosing)
	}
	f := c.mu.byKey[key]
	if f != nil {
		f.refs++
		f.used = time.Now()
		c.mu.lru.MoveToFront(f.elem)
	}
	return f, nil
}

func (c *fdCache) release(f *fd) {
	c.mu.Lock()
	f.refs--
	last := f.refs == 0 && f.elem == nil
	c.mu.Unlock()
	if last {
		f.Close()
	}
}

// unlock closes what was dropped, after it has let others in: the last close of a
// removed segment frees its blocks, which takes time.
func (c *fdCache) unlock() {
	dead := c.mu.dead
	c.mu.dead = nil
	c.mu.Unlock()
	for _, f := range dead {
		f.Close()
	}
}

// drop takes a file out of the cache, and has it closed when nobody reads it. The
// caller holds mu, and ends with unlock.
func (c *fdCache) drop(e *list.Element) *fd {
	f := e.Value.(*fd)
	c.mu.lru.Remove(e)
	delete(c.mu.byKey, f.key)
	f.elem = nil
	if f.refs == 0 {
		c.mu.dead = append(c.mu.dead, f.File)
	}
	return f
}

// dropIf takes out the files that which picks.
func (c *fdCache) dropIf(which func(*fd) bool) {
	for e := c.mu.lru.Front(); e != nil; {
		next := e.Next()
		if which(e.Value.(*fd)) {
			c.drop(e)
		}
		e = next
	}
}

// forget takes out the files of a listing.
func (c *fdCache) forget(l *listing) {
	c.mu.Lock()
	defer c.unlock()
	c.dropIf(func(f *fd) bool { return f.key.of == l })
}

func (c *fdCache) sweep() {
	c.mu.Lock()
	defer c.unlock()
	if c.mu.closed {
		return
	}
	now := time.Now()
	c.dropIf(func(f *fd) bool { return now.Sub(f.used) >= c.idle })
	c.mu.timer = nil
	if c.mu.lru.Len() > 0 {
		c.mu.timer = time.AfterFunc(c.idle, c.sweep)
	}
}

func (c *fdCache) close() {
	c.mu.Lock()
	defer c.unlock()
	c.mu.closed = true
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	c.dropIf(func(*fd) bool { return true })
}
