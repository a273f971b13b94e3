package layout

import (
	"sync"
	"testing"
	"unsafe"
)

func TestWords(t *testing.T) {
	backing := make([]uint64, 4)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(backing))), 32)
	StoreWord(mem, 8, 0x0807060504030201)
	for i, b := range mem[8:16] { // little-endian whatever the host is
		if b != byte(i+1) {
			t.Fatalf("bytes % x", mem[8:16])
		}
	}
	if v := LoadWord(mem, 8); v != 0x0807060504030201 {
		t.Errorf("loaded %x", v)
	}
	if mem[7] != 0 || mem[16] != 0 {
		t.Error("wrote outside of the word")
	}
	for _, offset := range []uint64{1, 4, 7, 25, 32, 1 << 40, 1<<64 - 8} {
		for name, f := range map[string]func(){
			"LoadWord":  func() { LoadWord(mem, offset) },
			"StoreWord": func() { StoreWord(mem, offset, 1) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s at %d of 32 bytes did not panic", name, offset)
					}
				}()
				f()
			}()
		}
	}
}

// A word is seen whole, and what was stored before it is seen with it.
func TestWordOrder(t *testing.T) {
	backing := make([]uint64, 16)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(backing))), 128)
	const rounds = 100_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(1); i <= rounds; i++ {
			StoreWord(mem, 64, i*0x0000000100000001)
			StoreWord(mem, 0, i)
		}
	})
	for last := uint64(0); last < rounds; {
		flag := LoadWord(mem, 0)
		data := LoadWord(mem, 64)
		if data>>32 != data&0xffffffff || data>>32 < flag || flag < last {
			t.Fatalf("flag %d (before: %d) with data %x", flag, last, data)
		}
		last = flag
	}
	wg.Wait()
}
