package rdma

import (
	"errors"
	"strings"
)

// Root names why a connection was lost, as a label of metrics: the status of the
// first READ that failed, in lower case (such as "retry_exc_err"), or stuck,
// gid_changed, device, closed or other. Their number is bounded.
func Root(err error) string {
	var completion *CompletionError
	switch {
	case errors.As(err, &completion):
		if s := strings.ToLower(completion.Status.String()); !strings.HasPrefix(s, "status ") {
			return s
		}
	case errors.Is(err, ErrStuck):
		return "stuck"
	case errors.Is(err, ErrGIDChanged):
		return "gid_changed"
	case errors.Is(err, ErrDevice):
		return "device"
	case errors.Is(err, ErrClosed):
		return "closed"
	}
	return "other"
}
