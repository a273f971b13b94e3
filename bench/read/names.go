package read

import (
	"encoding"
	"fmt"
	"slices"
	"strings"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Transport is a way to the arena.
type Transport int

// The transports.
const (
	SHM Transport = iota
	RDMA
	TCP
)

// Kind is what one read is.
type Kind int

// The kinds, as the package comment has them.
const (
	Word Kind = iota
	Line
	Raw
	Chunk
	Delta
	Backlog
)

// Mode is what is measured of reads.
type Mode int

// The modes.
const (
	Latency Mode = iota
	Rate
)

var (
	transportNames = []string{"shm", "rdma", "tcp"}
	kindNames      = []string{"word", "line", "raw", "chunk", "delta", "backlog"}
	modeNames      = []string{"latency", "rate"}
)

func (t Transport) String() string { return transportNames[t] }
func (k Kind) String() string      { return kindNames[k] }
func (m Mode) String() string      { return modeNames[m] }

// Transports and Kinds are all, in the order of the table.
func Transports() []Transport { return []Transport{SHM, RDMA, TCP} }

// Kinds are all, in the order of the table.
func Kinds() []Kind { return []Kind{Word, Line, Raw, Chunk, Delta, Backlog} }

const (
	wordBytes  = 8
	lineBytes  = 64
	deltaBytes = 200
)

// bytes is what a read of the kind brings, without what proves it.
func (k Kind) bytes() int {
	switch k {
	case Word:
		return wordBytes
	case Line:
		return lineBytes
	case Delta:
		return deltaBytes
	}
	return layout.ChunkSize
}

// verified says whether a read of the kind proves its bytes.
func (k Kind) verified() bool { return k == Chunk || k == Delta || k == Backlog }

func parse[T ~int](names []string, what string, text []byte, to *T) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%w: %s %q, want %s", ErrConfig, what, text, strings.Join(names, ", "))
	}
	*to = T(i)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it fails with ErrConfig.
func (t *Transport) UnmarshalText(b []byte) error { return parse(transportNames, "transport", b, t) }

// UnmarshalText implements encoding.TextUnmarshaler; it fails with ErrConfig.
func (k *Kind) UnmarshalText(b []byte) error { return parse(kindNames, "read", b, k) }

// UnmarshalText implements encoding.TextUnmarshaler; it fails with ErrConfig.
func (m *Mode) UnmarshalText(b []byte) error { return parse(modeNames, "mode", b, m) }

var (
	_ encoding.TextUnmarshaler = (*Transport)(nil)
	_ encoding.TextUnmarshaler = (*Kind)(nil)
	_ encoding.TextUnmarshaler = (*Mode)(nil)
)
