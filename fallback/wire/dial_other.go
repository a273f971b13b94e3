//go:build !linux

package wire

import "syscall"

// setUserTimeout does nothing: there is no TCP_USER_TIMEOUT here, keepalive alone finds dead hosts.
func setUserTimeout(_, _ string, _ syscall.RawConn) error {
	_ = userTimeout
	return nil
}
