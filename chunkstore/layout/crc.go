package layout

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// wordTables[i][b] is the CRC of byte b followed by i zero bytes, without the
// inversions: the way to take a word in one step.
var wordTables = func() (t [8][256]uint32) {
	t[0] = *castagnoli
	for i := 1; i < 8; i++ {
		for b, crc := range t[i-1] {
			t[i][b] = castagnoli[byte(crc)] ^ crc>>8
		}
	}
	return t
}()

// extendWord and extendHalf continue a CRC over a little-endian word, and half a
// word. Identities, entries and seeds are a few words: the standard library's CRC
// would move each to the heap, as whatever it is given escapes.
func extendWord(crc uint32, w uint64) uint32 {
	w ^= uint64(^crc)
	return ^(wordTables[7][byte(w)] ^ wordTables[6][byte(w>>8)] ^ wordTables[5][byte(w>>16)] ^ wordTables[4][byte(w>>24)] ^
		wordTables[3][byte(w>>32)] ^ wordTables[2][byte(w>>40)] ^ wordTables[1][byte(w>>48)] ^ wordTables[0][byte(w>>56)])
}

func extendHalf(crc, w uint32) uint32 {
	w ^= ^crc
	return ^(wordTables[3][byte(w)] ^ wordTables[2][byte(w>>8)] ^ wordTables[1][byte(w>>16)] ^ wordTables[0][byte(w>>24)])
}

// hashCRC returns the CRC32C of a hash.
func hashCRC(h Hash) uint32 { return extendWord(extendWord(0, load64(h[0:])), load64(h[8:])) }

// Checksum returns the CRC32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// SeedCRC returns the CRC of the empty prefix of a chunk: the CRC32C of its
// identity. Extend it with the chunk's bytes in order.
func SeedCRC(h Hash, chunk uint64) uint32 {
	return extendWord(hashCRC(h), chunk)
}

// ExtendCRC continues the CRC of a chunk's prefix over the bytes that follow it.
func ExtendCRC(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// Chunk returns the number of the chunk that holds the byte at a position.
func Chunk(pos uint64) uint64 { return pos / ChunkSize }

// Extent returns the number of the extent that holds the byte at a position.
func Extent(pos uint64) uint64 { return pos / ExtentSize }

// Tail returns the tail chunk of a length, and the length of its published
// prefix: 1 to ChunkSize, or chunk 0 and 0 bytes for length 0. A length on a
// chunk border hence has a full tail chunk, which its entry alone can prove.
func Tail(length uint64) (chunk uint64, valid int) {
	if length == 0 {
		return 0, 0
	}
	return (length - 1) / ChunkSize, int((length-1)%ChunkSize) + 1
}

func load64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
