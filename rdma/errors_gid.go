package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Reading what the kernel says.
var (
	// ErrBadGID is returned when text is no GID.
	ErrBadGID = errors.New("malformed GID")
	// ErrNoRoute is returned when this host has no route to the peer.
	ErrNoRoute = errors.New("no route")
)

// Choosing.
var (
	// ErrNoDevice is returned when no RDMA device of this host can reach the
	// peer, or the one that was asked for is not there. The error is a
	// *NoDeviceError, which has the reason for each device.
	ErrNoDevice = errors.New("no usable RDMA device")
	// ErrNoGID is returned when no entry of a GID table can be used, or the one
	// that was asked for cannot. The error is a *NoGIDError, which has the
	// reason for each entry.
	ErrNoGID = errors.New("no usable GID")
)

// NoGIDError says why no entry was chosen. It matches ErrNoGID.
type NoGIDError struct {
	Cause string // in one line
	Trace Trace
}

func (e *NoGIDError) Error() string {
	if len(e.Trace) == 0 {
		return ErrNoGID.Error() + ": " + e.Cause
	}
	return fmt.Sprintf("%v: %s: %s", ErrNoGID, e.Cause, e.Trace.oneLine())
}

// Is matches ErrNoGID.
func (e *NoGIDError) Is(target error) bool { return target == ErrNoGID }

// DeviceReason is why a port of a device was passed over.
type DeviceReason struct {
	Device string
	Port   int // 0: the whole device
	Err    error
}

func (r DeviceReason) String() string {
	if r.Port == 0 {
		return fmt.Sprintf("%s: %v", r.Device, r.Err)
	}
	return fmt.Sprintf("%s port %d: %v", r.Device, r.Port, r.Err)
}

// NoDeviceError says why no device was chosen. It matches ErrNoDevice, and
// ErrNoGID too when a device on the way to the peer had no usable GID.
type NoDeviceError struct {
	Peer    netip.Addr
	Cause   string // in one line, with what to do about it
	Reasons []DeviceReason
}

func (e *NoDeviceError) Error() string {
	var b strings.Builder
	b.WriteString(ErrNoDevice.Error())
	if e.Peer.IsValid() {
		fmt.Fprintf(&b, " for peer %v", e.Peer)
	}
	b.WriteString(": " + e.Cause)
	for _, r := range e.Reasons {
		b.WriteString("; " + r.String())
	}
	return b.String()
}

// Is matches ErrNoDevice.
func (e *NoDeviceError) Is(target error) bool { return target == ErrNoDevice }

// Unwrap returns the reasons of all devices.
func (e *NoDeviceError) Unwrap() []error {
	errs := make([]error, 0, len(e.Reasons))
	for _, r := range e.Reasons {
		errs = append(errs, r.Err)
	}
	return errs
}
