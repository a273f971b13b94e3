//go:build !linux

package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Here returns an error: there is no RDMA elsewhere than on Linux.
func Here(context.Context, Want) (Host, error) {
	return Host{}, fmt.Errorf("the checks are for Linux, this is %s, where rmatail reads over TCP: %w", runtime.GOOS, errors.ErrUnsupported)
}
