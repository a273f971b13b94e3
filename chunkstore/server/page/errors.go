package page

import "errors"

// ErrConfig is returned by New when a setting is out of bounds.
var ErrConfig = errors.New("page configuration")
