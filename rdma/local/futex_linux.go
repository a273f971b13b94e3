package local

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), without FUTEX_PRIVATE_FLAG: the word is shared.
const (
	futexWaitBitset = 9
	futexWakeBitset = 10
)

// futexWait sleeps while a word has a value, until it is woken by one of the bits, for
// d at most. The mapping may be read-only. It may return for no reason.
func futexWait(word *uint32, value, bits uint32, d time.Duration) {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	until := unix.NsecToTimespec(now.Nano() + d.Nanoseconds())
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitBitset, uintptr(value), uintptr(unsafe.Pointer(&until)), 0, uintptr(bits))
}

// futexWake wakes all that wait for one of the bits.
func futexWake(word *uint32, bits uint32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakeBitset, math.MaxInt32, 0, 0, uintptr(bits))
}

// startWord makes the word one of a node that wakes.
func startWord(word *uint32) {
	if word != nil {
		atomic.CompareAndSwapUint32(word, 0, 1)
	}
}

// Wake tells consumers that n bytes of the arena at off have changed, after they have.
// Any goroutine, also after Close. While nobody is connected it does nothing, and
// without ListenConfig.Word.
func (s *Server) Wake(off uint64, n int) {
	if s.word == nil || s.held.Load() == 0 {
		return
	}
	if atomic.AddUint32(s.word, 1) == 0 {
		atomic.CompareAndSwapUint32(s.word, 0, 1)
	}
	futexWake(s.word, bitsOf(off, n))
}
