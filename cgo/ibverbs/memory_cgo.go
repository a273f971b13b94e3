//go:build linux && cgo && !noverbs

package ibverbs

// #include "shim.h"
import "C"

import (
	"runtime"
	"syscall"
	"unsafe"
)

// PD is a protection domain: queue pairs reach only the MRs of their own.
type PD struct {
	ctx *Context
	ptr unsafe.Pointer
}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	if c.ptr == nil {
		return nil, ErrDestroyed
	}
	pd := &PD{ctx: c}
	if errno := C.rm_alloc_pd(c.ptr, &pd.ptr); errno != 0 {
		return nil, &Error{Op: "ibv_alloc_pd", On: c.name, Errno: syscall.Errno(errno), Hint: createHint(syscall.Errno(errno))}
	}
	return pd, nil
}

// Dealloc frees the domain. It fails with EBUSY while it has MRs or queue pairs.
func (pd *PD) Dealloc() error {
	if pd.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_dealloc_pd(pd.ptr); errno != 0 {
		return &Error{Op: "ibv_dealloc_pd", On: pd.ctx.name, Errno: syscall.Errno(errno)}
	}
	pd.ptr = nil
	return nil
}

// MR is a registered memory region.
type MR struct {
	pd         *PD
	ptr        unsafe.Pointer
	addr       uint64
	length     uint64
	lkey, rkey uint32
}

// RegMR registers mem, which must be mmap'd memory, not of the Go heap (see
// Memory in the package comment). The pages are pinned, and count against
// RLIMIT_MEMLOCK unless the process has CAP_IPC_LOCK.
func (pd *PD) RegMR(mem []byte, access Access) (*MR, error) {
	if pd.ptr == nil {
		return nil, ErrDestroyed
	}
	if len(mem) == 0 {
		return nil, &Error{Op: "ibv_reg_mr", On: pd.ctx.name, Errno: syscall.EINVAL, Hint: "no bytes"}
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	mr := &MR{pd: pd, addr: uint64(uintptr(p)), length: uint64(len(mem))}
	var lkey, rkey C.uint32_t
	errno := C.rm_reg_mr(pd.ptr, p, C.uint64_t(len(mem)), C.int(access), &mr.ptr, &lkey, &rkey)
	runtime.KeepAlive(mem)
	if errno != 0 {
		return nil, &Error{Op: "ibv_reg_mr", On: pd.ctx.name, Errno: syscall.Errno(errno), Hint: createHint(syscall.Errno(errno))}
	}
	mr.lkey, mr.rkey = uint32(lkey), uint32(rkey)
	return mr, nil
}

// Addr returns the address of the region's first byte, as peers name it.
func (mr *MR) Addr() uint64 { return mr.addr }

// Len returns the length of the region.
func (mr *MR) Len() uint64 { return mr.length }

// RKey returns the key that peers need. It is a capability: never log it.
func (mr *MR) RKey() uint32 { return mr.rkey }

// Dereg unpins the memory and kills the keys. Requests of peers that come later
// fail with REM_ACCESS_ERR there.
func (mr *MR) Dereg() error {
	if mr.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_dereg_mr(mr.ptr); errno != 0 {
		return &Error{Op: "ibv_dereg_mr", On: mr.pd.ctx.name, Errno: syscall.Errno(errno)}
	}
	mr.ptr = nil
	return nil
}
