package durable

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

const (
	metaName = "shard"
	metaTemp = "shard.tmp"
	metaHead = "rmatail shard 1"
	metaMax  = 4096 // larger is not ours
)

// encodeMeta writes the identity of a shard.
func encodeMeta(incarnation uint64) []byte {
	b := fmt.Appendf(nil, "%s\nincarnation %016x\n", metaHead, incarnation)
	return fmt.Appendf(b, "crc32c %08x\n", crc32.Checksum(b, castagnoli))
}

var errMeta = errors.New("unreadable identity")

// parseMeta reads what encodeMeta wrote. Errors match ErrVersion when the first
// line names another version, and errMeta otherwise.
func parseMeta(b []byte) (incarnation uint64, err error) {
	head, _, _ := strings.Cut(string(b[:min(len(b), 64)]), "\n")
	if head != metaHead && strings.HasPrefix(head, "rmatail shard ") {
		return 0, fmt.Errorf("%w: %.40q, this build knows %q: use a newer one", ErrVersion, head, metaHead)
	}
	if _, err := fmt.Sscanf(string(b), metaHead+"\nincarnation %x\n", &incarnation); err != nil {
		return 0, errMeta
	}
	if string(b) != string(encodeMeta(incarnation)) {
		return 0, errMeta
	}
	return incarnation, nil
}
