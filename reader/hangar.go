package reader

import "sync"

// hangar keeps flights that nobody uses: Readers that wait have none. Any number
// of goroutines may use it.
type hangar struct {
	mu struct {
		sync.Mutex
		idle []*flight
	}
}

// hangarMost bounds what is kept: 100 KiB.
const hangarMost = 64

func (h *hangar) take() *flight {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.mu.idle) - 1
	if last < 0 {
		return &flight{}
	}
	f := h.mu.idle[last]
	h.mu.idle[last] = nil
	h.mu.idle = h.mu.idle[:last]
	return f
}

// put releases a flight and takes it back.
func (h *hangar) put(f *flight) {
	f.release()
	*f = flight{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.mu.idle) < hangarMost {
		h.mu.idle = append(h.mu.idle, f)
	}
}
