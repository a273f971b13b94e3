// Package ibverbs binds the part of libibverbs that one-sided reads need. It is
// the only package of the module that calls C, and it has no policy: what to do
// with a device, a GID or an error is decided in package rdma.
//
// # What leaves the package
//
// Go types only: no C type, no unsafe.Pointer, no address of a Go object, and
// no bare errno. A failed call returns an *Error, or a *ModifyError for a queue
// pair transition, and errors.Is finds the syscall.Errno inside. A completion
// carries a Status.
//
// # Memory
//
// Memory that a device may touch must not come from the Go heap: PD.RegMR takes
// a slice over mmap'd memory, which must stay mapped until MR.Dereg, and, for
// an MR that READs land in, until every READ posted on it has completed or its
// queue pair is destroyed. The arrays of Read and WC are Go memory; C reads
// and writes them during the call only, and builds the list that the library
// wants on its own stack.
//
// # Calls
//
// A batch costs one C call: QP.PostPoll posts a list and polls. None of the
// calls on that path allocates. Calls that may sleep in the kernel (Open,
// RegMR, ToRTR: over a second when the peer's GID does not resolve) keep an OS
// thread, not a P.
//
// # Concurrency
//
// libibverbs is thread-safe, and so are the calls here, with one exception that
// is the caller's duty: destroying an object (Close, Dealloc, Dereg, Destroy)
// must not overlap with any other call on it. A second destroying call returns
// an error and does nothing.
//
// # Fork
//
// ibv_fork_init is not called. It guards against copy-on-write moving pinned
// pages of a parent that forks and goes on writing. Go starts processes with
// CLONE_VM|CLONE_VFORK, which copies no page table, and package rdma registers
// shared mappings only, which are never copied on write.
//
// # Without the library
//
// libibverbs.so.1 is loaded by dlopen on the first call, so a binary starts on
// a host that does not have it; then every call returns ErrNoLibrary. Built
// with the tag noverbs, without cgo, or for another system than Linux, the
// package is a stub with the same API whose calls return ErrUnsupported.
package ibverbs
