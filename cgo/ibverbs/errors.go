package ibverbs

import (
	"errors"
	"fmt"
	"syscall"
)

// Loading.
var (
	// ErrUnsupported is returned when this build has no verbs: another system
	// than Linux, no cgo, or the tag noverbs. ErrNoLibrary matches it too.
	ErrUnsupported = fmt.Errorf("ibverbs: this build has no RDMA verbs (they need linux, cgo, and no build tag noverbs): %w", errors.ErrUnsupported)
	// ErrNoLibrary is returned when libibverbs.so.1 cannot be loaded.
	ErrNoLibrary error = noLibrary{}
)

// noLibrary is ErrNoLibrary.
type noLibrary struct{}

func (noLibrary) Error() string {
	return "ibverbs: libibverbs.so.1 cannot be loaded; install the packages libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (Fedora, RHEL, SUSE)"
}

// Is matches ErrUnsupported: for most callers the two are the same.
func (noLibrary) Is(target error) bool {
	return target == ErrUnsupported || target == errors.ErrUnsupported
}

// Using.
var (
	// ErrDestroyed is returned when the object has been closed, deallocated,
	// deregistered or destroyed.
	ErrDestroyed = errors.New("object already destroyed")
	// ErrTooMany is returned when a list has more than MaxReads reads, or none.
	ErrTooMany = errors.New("number of reads out of range")
)

// Error is a verbs call that failed.
type Error struct {
	Op    string // the C function
	On    string // what it was called on or for: "rxe0", "rxe0 port 1"; may be empty
	Errno syscall.Errno
	Hint  string // cause and fix, when the errno has a usual one; may be empty
}

func (e *Error) Error() string {
	s := e.Op
	if e.On != "" {
		s += " " + e.On
	}
	s += fmt.Sprintf(": %v (errno %d)", e.Errno, int(e.Errno))
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// ModifyError is a refused queue pair transition.
type ModifyError struct {
	QPN      uint32
	From, To QPState
	Attrs    string // the attributes that the transition set
	Errno    syscall.Errno
	Hint     string // which attribute the errno usually means; may be empty
}

func (e *ModifyError) Error() string {
	s := fmt.Sprintf("ibv_modify_qp %d %v to %v (%s): %v (errno %d)", e.QPN, e.From, e.To, e.Attrs, e.Errno, int(e.Errno))
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns the errno.
func (e *ModifyError) Unwrap() error { return e.Errno }

// modifyHint explains an errno of ibv_modify_qp. The kernel has no better
// answer than the errno; the causes are those of ib_core and of the drivers.
func modifyHint(to QPState, errno syscall.Errno) string {
	switch errno {
	case syscall.ENODATA:
		return "the GID table has no entry at sgid_index: the address was removed, choose again"
	case syscall.ENODEV:
		return "the netdev of the GID is not in this network namespace"
	case syscall.ETIMEDOUT:
		return "the peer's GID did not resolve to a MAC address: no route to it, or no answer to ARP or neighbour discovery"
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return "no route from the GID at sgid_index to the peer's GID"
	case syscall.EINVAL:
		switch to {
		case RTR:
			return "peer GID empty or of another family than the GID at sgid_index, path MTU above the port's, or max_dest_rd_atomic above the device's max_qp_rd_atom"
		case RTS:
			return "max_rd_atomic above the device's max_qp_init_rd_atom, or the queue pair is not in RTR"
		case Init:
			return "no such port, or access flags that the device lacks"
		}
	case syscall.ENOMEM:
		return "out of locked memory or device resources"
	}
	return ""
}

// createHint explains an errno of a call that pins memory or makes an object.
func createHint(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOMEM:
		return "over RLIMIT_MEMLOCK (ulimit -l), or out of device resources"
	case syscall.EFAULT:
		return "memory not mapped, or mapped read-only and shared, which cannot be registered"
	case syscall.EINVAL:
		return "more than the device allows, or access flags that it lacks"
	}
	return ""
}

// openHint explains an errno of listing or opening devices.
func openHint(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOSYS:
		return "the kernel offers no verbs: load ib_uverbs and the driver of the device"
	case syscall.EACCES, syscall.EPERM:
		return "no permission for /dev/infiniband/uverbs*: the container or the user needs them"
	case syscall.ENODEV:
		return "no such device, or no provider library for it (package ibverbs-providers)"
	case syscall.ENOENT:
		return "/dev/infiniband/uverbs* is missing: the container needs it"
	}
	return ""
}

// postHint explains an errno of ibv_post_send.
func postHint(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOMEM:
		return "the send queue is full: more reads than the queue pair was made for"
	case syscall.ERANGE:
		return "a read would land outside its memory region"
	case syscall.EINVAL:
		return "the queue pair is not in RTS"
	}
	return ""
}
