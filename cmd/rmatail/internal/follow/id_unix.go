//go:build unix

package follow

import (
	"os"
	"syscall"
)

func info(i os.FileInfo) Info {
	n := Info{Size: i.Size()}
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		n.ID = ID{Dev: uint64(s.Dev), Ino: uint64(s.Ino)}
	}
	return n
}
