//go:build linux && cgo && !noverbs

package ibverbs

// #include "shim.h"
import "C"

import "unsafe"

// The sizes that C compiled with, against those that Go did; the offsets are
// checked on each side against the same numbers (types.go, data.c).
const (
	_ = uint(unsafe.Sizeof(Read{})-C.sizeof_struct_rm_read) + uint(C.sizeof_struct_rm_read-unsafe.Sizeof(Read{}))
	_ = uint(unsafe.Sizeof(WC{})-C.sizeof_struct_rm_wc) + uint(C.sizeof_struct_rm_wc-unsafe.Sizeof(WC{}))
)
