package wire

import "fmt"

// appendStr appends s as a "str": one length byte, then s. Over-long or, where least is 1, empty strings are refused, because a
// wrapped length byte would shift everything behind it.
func appendStr[S ~string | ~[]byte](dst []byte, what string, s S, least, most int) ([]byte, error) {
	if len(s) < least || len(s) > most {
		return dst, fmt.Errorf("%s of %d B, needs %d to %d: %w", what, len(s), least, most, ErrBadRequest)
	}
	dst = append(dst, byte(len(s)))
	return append(dst, s...), nil
}

// takeStr splits a "str" off the front of p; bad is the sentinel that a failure wraps.
func takeStr(p []byte, what string, least, most int, bad error) (s, rest []byte, err error) {
	if len(p) < 1 {
		return nil, nil, fmt.Errorf("no %s: %w", what, bad)
	}
	n := int(p[0])
	if n < least || n > most {
		return nil, nil, fmt.Errorf("%s of %d B, needs %d to %d: %w", what, n, least, most, bad)
	}
	if len(p)-1 < n {
		return nil, nil, fmt.Errorf("%s of %d B in %d: %w", what, n, len(p)-1, bad)
	}
	return p[1 : 1+n : 1+n], p[1+n:], nil
}

// lastStr takes a "str" that must end p.
func lastStr(p []byte, what string, least, most int, bad error) ([]byte, error) {
	s, rest, err := takeStr(p, what, least, most, bad)
	if err != nil {
		return nil, err
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d B behind the %s: %w", len(rest), what, bad)
	}
	return s, nil
}

// atLeast refuses a payload that is shorter than its fixed part.
func atLeast(p []byte, what string, n int, bad error) error {
	if len(p) < n {
		return fmt.Errorf("%s of %d B, needs at least %d: %w", what, len(p), n, bad)
	}
	return nil
}

// exactly refuses a payload that has not n bytes.
func exactly(p []byte, what string, n int, bad error) error {
	if len(p) != n {
		return fmt.Errorf("%s of %d B, needs %d: %w", what, len(p), n, bad)
	}
	return nil
}
