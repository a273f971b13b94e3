package server

import "sync"

// payloadLarge is from where on payload memory is kept for reuse.
const payloadLarge = 16 << 10

// payloads recycles the memory of large payloads and durable reads.
type payloads struct{ pool sync.Pool }

// get returns an empty slice with room for n bytes.
func (p *payloads) get(n int) []byte {
	if n < payloadLarge {
		return make([]byte, 0, n)
	}
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]byte, 0, n)
}

func (p *payloads) put(b []byte) {
	if cap(b) >= payloadLarge {
		p.pool.Put(&b)
	}
}
