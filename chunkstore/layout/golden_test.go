package layout

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// unhex reads annotated hex: everything after a '#' is a comment. The goldens
// below were made by another implementation (Python, bitwise CRC32C, hashlib),
// not by this package.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bytesOf lays words out as they are in the arena.
func bytesOf(words ...uint64) []byte {
	var b []byte
	for _, w := range words {
		for range 8 {
			b = append(b, byte(w))
			w >>= 8
		}
	}
	return b
}

const goldenIncarnation = 0x1122334455667788

var (
	goldenShard = Shard{Stream: "logs", Number: 7}
	goldenHash  = Hash{0x12, 0x25, 0x0c, 0x97, 0xe5, 0xa2, 0x5b, 0x4f, 0xc7, 0x30, 0x41, 0x2a, 0x23, 0x28, 0x3c, 0x86}
)

func TestGoldenHashes(t *testing.T) {
	// SHA-256("rmatail shard 1\0" "logs" 07000000 8877665544332211), first 16 bytes.
	if h := goldenShard.Hash(goldenIncarnation); h != goldenHash {
		t.Errorf("shard hash %x, want %x", h, goldenHash)
	}
	// SHA-256("rmatail pages 1\0" "logs"), first 16 bytes.
	want := unhex(t, "0ac84063e1e13c1bd98f02ee583dac98")
	if h := StreamHash("logs"); !bytes.Equal(h[:], want) {
		t.Errorf("stream hash %x, want %x", h, want)
	}
}

func TestGoldenHeader(t *testing.T) {
	h := Header{Geometry: Geometry{PageSets: 2, ExtentSets: 3}, Epoch: 0xa1b2c3d4e5f60718}
	got := make([]byte, HeaderSize+8)
	for i := range got {
		got[i] = 0xff // Encode must clear what it does not write
	}
	h.Encode(got)
	first := unhex(t, `
		52 4d 41 54 41 49 4c 01  # 0  magic "RMATAIL\x01"
		01 00 00 00              # 8  version 1
		00 10 00 00              # 12 chunk 4096 B
		10 00 00 00              # 16 16 chunks an extent
		10 00 00 00              # 20 16 ways
		02 00 00 00              # 24 page sets
		03 00 00 00              # 28 extent sets
		18 07 f6 e5 d4 c3 b2 a1  # 32 epoch
		00 50 32 00 00 00 00 00  # 40 arena size 3,297,280`)
	if !bytes.Equal(got[:48], first) {
		t.Errorf("header\n%x, want\n%x", got[:48], first)
	}
	if !bytes.Equal(got[48:4092], make([]byte, 4044)) {
		t.Error("bytes 48..4092 are not zero")
	}
	if crc := unhex(t, "f3 a9 a3 c5"); !bytes.Equal(got[4092:4096], crc) {
		t.Errorf("CRC %x, want %x", got[4092:4096], crc)
	}
	if !bytes.Equal(got[4096:], bytes.Repeat([]byte{0xff}, 8)) {
		t.Error("Encode wrote behind the header")
	}
	if back, err := ParseHeader(got); err != nil || back != h {
		t.Errorf("parsed %+v, %v", back, err)
	}
}

func TestGoldenIdentity(t *testing.T) {
	id := Identity{Key: goldenHash, Number: 0x123456789abc, Generation: 0x80001}
	w := id.Words()
	want := unhex(t, `
		12250c97e5a25b4f c730412a23283c86  # 0  key hash
		bc 9a 78 56 34 12 00 00            # 16 number
		01 00 08 00                        # 24 generation
		db 0c 46 62                        # 28 CRC32C of bytes 0..28`)
	if got := bytesOf(w[:]...); !bytes.Equal(got, want) {
		t.Errorf("identity\n%x, want\n%x", got, want)
	}
	if back, ok := ParseIdentity(want); !ok || back != id {
		t.Errorf("parsed %+v, %v", back, ok)
	}
}

func TestGoldenDescriptor(t *testing.T) {
	crc := ExtendCRC(SeedCRC(goldenHash, 5), []byte("hello"))
	d := NewDescriptor(crc, 5, 0x80001) // the tag is 1: bit 19 is cut off
	want := unhex(t, `
		1e d7 a5 3b  # bits  0..31 CRC32C(hash, 0500000000000000, "hello")
		05 20 00 00  # bits 32..44 valid length 5; bits 45..63 tag 1`)
	if got := bytesOf(uint64(d)); !bytes.Equal(got, want) {
		t.Errorf("descriptor %x, want %x", got, want)
	}
	full := unhex(t, `
		ff ff ff ff  # CRC
		00 f0 ff ff  # valid length 4096, tag 0x7ffff`)
	if got := bytesOf(uint64(NewDescriptor(0xffffffff, ChunkSize, 0xffffffff))); !bytes.Equal(got, full) {
		t.Errorf("descriptor %x, want %x", got, full)
	}
	p := ParseDescriptor(append(make([]byte, 8), want...), 1)
	if p != d || p.CRC() != crc || p.Valid() != 5 || !p.Of(0x80001) || !p.Of(1) || p.Of(2) {
		t.Errorf("parsed %x: CRC %08x, valid %d", uint64(p), p.CRC(), p.Valid())
	}
}

func TestGoldenEntry(t *testing.T) {
	e := Entry{
		Length: 5*ChunkSize + 5, TailCRC: ExtendCRC(SeedCRC(goldenHash, 5), []byte("hello")),
		HeartbeatMS: 0x018f3c2b1a09, Flags: FlagSealed, Incarnation: goldenIncarnation,
	}.Seal(goldenHash)
	w := e.Words()
	want := unhex(t, `
		05 50 00 00 00 00 00 00  # 0  length 20,485
		1e d7 a5 3b              # 8  tail CRC
		90 30 a2 0a              # 12 check
		09 1a 2b 3c 8f 01        # 16 heartbeat
		01 00                    # 22 flags: sealed
		88 77 66 55 44 33 22 11  # 24 incarnation`)
	if got := bytesOf(w[:]...); !bytes.Equal(got, want) {
		t.Errorf("entry\n%x, want\n%x", got, want)
	}
	page := make([]byte, PageSize)
	copy(page[goldenShard.EntryOffset():], want)
	if goldenShard.EntryOffset() != 224 {
		t.Errorf("entry of shard 7 at %d, want 224", goldenShard.EntryOffset())
	}
	if back := ParseEntry(page, 224); back != e || !back.Valid(goldenHash) {
		t.Errorf("parsed %+v, valid %v", back, back.Valid(goldenHash))
	}
}
