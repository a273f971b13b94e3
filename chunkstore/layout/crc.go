package layout

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// SeedCRC returns the CRC of the empty prefix of a chunk: the CRC32C of its
// identity. Extend it with the chunk's bytes in order.
func SeedCRC(h Hash, chunk uint64) uint32 {
	var b [24]byte
	copy(b[:], h[:])
	binary.LittleEndian.PutUint64(b[16:], chunk)
	return crc32.Checksum(b[:], castagnoli)
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
