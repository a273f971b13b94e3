package local

import (
	"encoding/binary"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roles are what the test binary does when it is run again as another process.
var roles = map[string]func() int{}

const roleEnv = "RMATAIL_LOCAL_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleEnv)]; role != nil {
		os.Exit(role())
	}
	goleak.VerifyTestMain(m)
}

// fillPattern writes what a test arena holds: each word says where it is.
func fillPattern(b []byte, epoch uint64) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], wordAt(uint64(i), epoch))
	}
}

func wordAt(off, epoch uint64) uint64 { return off*0x9e3779b97f4a7c15 ^ epoch }

// checkPattern reports where b differs from the arena's bytes at off.
func checkPattern(b []byte, off, epoch uint64) (wrong int) {
	for i := range b {
		at := off + uint64(i)
		if b[i] != byte(wordAt(at&^7, epoch)>>(at%8*8)) {
			wrong++
		}
	}
	return wrong
}
