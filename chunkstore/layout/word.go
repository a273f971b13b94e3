package layout

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// bigEndian is fixed for a platform; shared memory is little-endian on all.
var bigEndian = binary.NativeEndian.Uint16([]byte{1, 0}) != 1

// LoadWord atomically loads the aligned 8-byte word at an offset of mapped
// memory. It panics if the word is outside of mem or not aligned.
func LoadWord(mem []byte, offset uint64) uint64 {
	v := atomic.LoadUint64(word(mem, offset))
	if bigEndian {
		v = bits.ReverseBytes64(v)
	}
	return v
}

// StoreWord atomically stores the aligned 8-byte word at an offset of mapped
// memory, after all earlier stores of this goroutine are visible to other CPUs
// and to devices. It is the one way to publish: on arm64 Go's atomics order only
// the inner-shareable domain, and a NIC is not in it (Arm ARM, B2.3: DMB OSHST).
// On amd64 stores are ordered, and DMA is coherent with them.
func StoreWord(mem []byte, offset, v uint64) {
	if bigEndian {
		v = bits.ReverseBytes64(v)
	}
	deviceBarrier()
	atomic.StoreUint64(word(mem, offset), v)
}

func word(mem []byte, offset uint64) *uint64 {
	if offset&7 != 0 {
		panic("layout: word is not 8-byte aligned")
	}
	b := mem[offset : offset+8 : offset+8]
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}
