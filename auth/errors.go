package auth

import "errors"

var (
	// ErrSettings is returned when settings contradict each other; the text says what
	// to change.
	ErrSettings = errors.New("authentication settings")
	// ErrMaterial is returned when a file is not what it should be.
	ErrMaterial = errors.New("authentication file")
	// ErrUnknown is returned when a peer has not shown who it is.
	ErrUnknown = errors.New("peer is not known")
	// ErrForbidden is returned when a peer that is known may not do something.
	ErrForbidden = errors.New("not allowed")
	// ErrPlain is returned when a token would travel, or has travelled, without TLS.
	ErrPlain = errors.New("a token without TLS")
)
