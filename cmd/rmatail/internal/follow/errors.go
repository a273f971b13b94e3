package follow

import "errors"

var (
	// ErrNotRegular is returned when the path leads to something that has no
	// offsets to go on from: a directory, a pipe, a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrLost is returned by Resume when no file is there that continues the mark.
	ErrLost = errors.New("the file that was followed is not there any more")
)
