package wire

import "net"

// gather collects bytes for one vectored write: some copied into buf, some by reference.
type gather struct {
	buf  []byte
	open int         // buf[open:] is not in vec yet
	vec  net.Buffers // in order; parts of buf and borrowed slices
	size int         // bytes in all
}

// seal makes what was appended to buf since the last call a segment. Segments keep pointing at the right bytes when buf moves:
// append copies, and the old array is not written again.
func (g *gather) seal() {
	if g.open < len(g.buf) {
		g.vec = append(g.vec, g.buf[g.open:len(g.buf):len(g.buf)])
		g.open = len(g.buf)
	}
}

// borrow adds p by reference.
func (g *gather) borrow(p []byte) {
	g.seal()
	g.vec = append(g.vec, p)
	g.size += len(p)
}

// reset forgets everything and keeps the memory.
func (g *gather) reset() {
	clear(g.vec)
	g.vec, g.buf, g.open, g.size = g.vec[:0], g.buf[:0], 0, 0
}
