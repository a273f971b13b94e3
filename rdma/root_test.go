package rdma

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

func TestRoot(t *testing.T) {
	for want, err := range map[string]error{
		"retry_exc_err":  fmt.Errorf("read: %w", &CompletionError{Status: ibverbs.RetryExcErr}),
		"rem_access_err": &CompletionError{Status: ibverbs.RemAccessErr},
		"other":          &CompletionError{Status: 4711},
		"stuck":          fmt.Errorf("%w: none for 2s", ErrStuck),
		"gid_changed":    ErrGIDChanged,
		"device":         ErrDevice,
		"closed":         ErrClosed,
	} {
		if got := Root(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := Root(errors.New("x")); got != "other" {
		t.Errorf("an error of another kind: %q", got)
	}
}
