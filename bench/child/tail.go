package child

import (
	"strings"
	"sync"
)

// tail keeps the end of what is written.
type tail struct {
	mu struct {
		sync.Mutex
		b []byte
	}
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.b = append(t.mu.b, p...)
	if n := len(t.mu.b) - tailBytes; n > 0 {
		t.mu.b = t.mu.b[:copy(t.mu.b, t.mu.b[n:])]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.mu.b))
}
