// Package crccopy copies memory and computes its CRC32C on the way. Copying 4 KiB and then
// computing its CRC reads it twice; done together it costs hardly more than the CRC alone,
// where that is an instruction on words as they pass (amd64 with SSE 4.2; elsewhere one
// is done after the other).
//
// What a CRC continues from need not be known when the bytes are copied: Copy returns a
// sum of the block alone, and Join makes of it what crc32.Update would have returned.
package crccopy

import "hash/crc32"

// Block is how many bytes Copy copies.
const Block = 4096

// Copy copies the first Block bytes of src to dst and returns their sum. src may be memory
// that others write meanwhile: the sum is of the bytes that are in dst. The two must not
// overlap. It panics when one of them is shorter.
func Copy(dst, src []byte) (sum uint32) {
	return copyBlock(dst[:Block], src[:Block])
}

// Join returns what continuing the CRC32C of something over a block gives, of which Copy has
// returned sum: crc32.Update(crc, castagnoli, block).
func Join(crc, sum uint32) uint32 { return ^(overBlock.of(^crc) ^ sum) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the CRC32C of b without the inversions before and after, which is linear in b.
func sumOf(b []byte) uint32 { return ^crc32.Update(^uint32(0), castagnoli, b) }

// shift is what zero bytes behind it make of such a sum, by each of its four bytes.
type shift [4][256]uint32

var overBlock = newShift(Block)

func newShift(zeros int) *shift {
	s := new(shift)
	behind := make([]byte, zeros)
	for i := range s {
		var bits [8]uint32 // of the byte
		for j := range bits {
			bits[j] = ^crc32.Update(^(uint32(1) << (8*i + j)), castagnoli, behind)
		}
		for b := range s[i] {
			for j, v := range bits {
				if b>>j&1 != 0 {
					s[i][b] ^= v
				}
			}
		}
	}
	return s
}

func (s *shift) of(sum uint32) uint32 {
	return s[0][byte(sum)] ^ s[1][byte(sum>>8)] ^ s[2][byte(sum>>16)] ^ s[3][sum>>24]
}
