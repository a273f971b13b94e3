package survey

import (
	"fmt"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
)

// memory reads one node's arena.
type memory struct {
	path     *tcp.Conn
	deadline time.Time
	geometry layout.Geometry
}

// span is bytes [off, off+n) of the arena.
type span struct {
	off uint64
	n   int
}

// open reads the header.
func (m *memory) open() error {
	b, err := m.read([]span{{0, layout.HeaderSize}})
	if err != nil {
		return err
	}
	h, err := layout.ParseHeader(b[0])
	if err != nil {
		return err
	}
	m.geometry = h.Geometry
	return nil
}

// read returns the bytes of spans, in their order, in as many batches as it takes.
func (m *memory) read(spans []span) (out [][]byte, err error) {
	for len(spans) > 0 {
		n, size := 0, 0
		for n < len(spans) && n < wire.MaxReads && size+spans[n].n <= wire.MaxRead {
			size += (spans[n].n + 7) &^ 7
			n++
		}
		if out, err = m.batch(spans[:n], size, out); err != nil {
			return nil, fmt.Errorf("node's memory: %w", err)
		}
		spans = spans[n:]
	}
	return out, nil
}

func (m *memory) batch(spans []span, size int, out [][]byte) ([][]byte, error) {
	b, err := m.path.NewBatch(size)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	var parts [][]byte
	for _, s := range spans {
		p := b.Add(s.off, s.n)
		if p == nil {
			return nil, fmt.Errorf("%d bytes at %d: %w", s.n, s.off, layout.ErrSize)
		}
		parts = append(parts, p)
	}
	if err := b.Post(m.deadline); err != nil {
		return nil, err
	}
	if err := b.Wait(); err != nil {
		return nil, err
	}
	for _, p := range parts {
		out = append(out, slices.Clone(p))
	}
	return out, nil
}
