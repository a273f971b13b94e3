package layout

import "errors"

// Errors of names.
var (
	// ErrName is returned when a stream or shard name breaks the naming rules.
	ErrName = errors.New("bad shard name")
)

// Errors of an arena's header and size.
var (
	// ErrForeign is returned when memory does not begin with an arena header.
	ErrForeign = errors.New("not an rmatail arena")
	// ErrVersion is returned when an arena has a layout or geometry that this
	// build does not know.
	ErrVersion = errors.New("unknown arena layout")
	// ErrCorrupt is returned when a header's CRC or sizes contradict each other.
	ErrCorrupt = errors.New("corrupt arena header")
	// ErrSize is returned when an arena of the wanted size cannot hold one set of
	// each table.
	ErrSize = errors.New("unusable arena size")
)
