package durable

import (
	"crypto/sha256"
	"encoding/binary"
)

// bootHash tells the kernel's runs apart. It is 0 when the system has no boot id;
// recovery then takes no two of them for the same.
func bootHash() uint64 {
	id := bootID()
	if id == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(id))
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}
