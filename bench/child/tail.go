package child

import (
	"strings"
	"sync"
)

// tail keeps the beginning and the end of what is written: why a process panicked,
// and where.
type tail struct {
	mu struct {
		sync.Mutex
		head, b []byte
		left    bool // something was left out between them
	}
}

const (
	headBytes = 1 << 10
	tailBytes = 2 << 10
)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(headBytes-len(t.mu.head), len(p))
	t.mu.head = append(t.mu.head, p[:n]...)
	t.mu.b = append(t.mu.b, p[n:]...)
	if n := len(t.mu.b) - tailBytes; n > 0 {
		t.mu.b = t.mu.b[:copy(t.mu.b, t.mu.b[n:])]
		t.mu.left = true
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	between := ""
	if t.mu.left {
		between = "\n...\n"
	}
	return strings.TrimSpace(string(t.mu.head) + between + string(t.mu.b))
}
