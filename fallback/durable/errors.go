package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Errors of opening a shard.
var (
	// ErrCorrupt is returned when a shard's files contradict each other. The
	// error is a *CorruptError; nothing was changed on disk.
	ErrCorrupt = errors.New("corrupt shard")
	// ErrVersion is returned when a shard was written in a layout that this
	// build does not know.
	ErrVersion = errors.New("unknown shard layout")
)

// Errors of appending.
var (
	// ErrFailed is returned by every append after a flush has failed. Close the
	// log and open it again: that recovers what was flushed.
	ErrFailed = errors.New("log failed")
	// ErrSealed is returned when bytes are appended to a sealed shard.
	ErrSealed = errors.New("shard is sealed")
	// ErrUnknownOutcome is returned when the caller stopped waiting for an append
	// that was already on its way: it may or may not become durable. Compare the
	// shard's length before trying again.
	ErrUnknownOutcome = errors.New("append with unknown outcome")
)

// CorruptError names the file that does not fit, and the positions.
type CorruptError struct {
	File   string // path
	Reason string // what is wrong with it
	Want   uint64 // position expected there
	Have   uint64 // position found
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: %s: %s: want position %d, have %d; restore the file or move the shard's directory away", ErrCorrupt, e.File, e.Reason, e.Want, e.Have)
}

// Is matches ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// unknownOutcome keeps the reason why the caller stopped waiting.
type unknownOutcome struct {
	shard string
	off   uint64
	n     int
	cause error
}

func (e *unknownOutcome) Error() string {
	at := "the end"
	if e.off != NoOffset {
		at = fmt.Sprint(e.off)
	}
	return fmt.Sprintf("%s: %d bytes to %s at %s: %v; compare the shard's length before trying again", ErrUnknownOutcome, e.n, e.shard, at, e.cause)
}
func (e *unknownOutcome) Is(target error) bool { return target == ErrUnknownOutcome }
func (e *unknownOutcome) Unwrap() error        { return e.cause }

// failedError is why a log failed. It matches ErrFailed and the errno, and
// nothing that would invite a second try, such as wire.ErrFull.
type failedError struct {
	shard string
	cause error
}

func (e *failedError) Error() string {
	return fmt.Sprintf("%s: %v; close %s and open it again to recover", ErrFailed, e.cause, e.shard)
}
func (e *failedError) Is(target error) bool { return target == ErrFailed }
func (e *failedError) Unwrap() error {
	var errno syscall.Errno
	if errors.As(e.cause, &errno) {
		return errno
	}
	return nil
}

// readError names what could not be read; the errno stays findable.
func readError(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, path, cause(err))
}

// osError gives an error of writing the sentinel that callers decide by, and
// keeps the errno.
func osError(what, path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: %s %s: %w; free space (or raise the quota), then append again", wire.ErrFull, what, path, cause(err))
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s %s: %w; check the mount and the owner", wire.ErrReadOnly, what, path, cause(err))
	}
	return readError(what, path, err)
}

// cause takes the path out of an os error, as it is said already.
func cause(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}

func badRequest(format string, args ...any) error {
	return &wire.Error{Status: wire.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(shard string, n int) error {
	return &wire.Error{Status: wire.StatusTooLarge, Arg0: MaxAppend, Message: fmt.Sprintf("append of %d bytes to %s, at most %d", n, shard, MaxAppend)}
}

func unknownShard(name, why string) error {
	return &wire.Error{Status: wire.StatusUnknownShard, Message: name + why}
}

func sealedError(shard string, length uint64) error {
	return fmt.Errorf("%w: %w: %s at %d", wire.ErrReadOnly, ErrSealed, shard, length)
}
