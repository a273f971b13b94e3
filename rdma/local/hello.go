package local

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	helloSize        = 32
	magic            = "RMATSHM\x01"
	handshakeTimeout = 3 * time.Second
)

// sendArena writes the hello with the file's descriptor.
func sendArena(c *net.UnixConn, f *os.File, size, epoch uint64) error {
	var p [helloSize]byte
	copy(p[:], magic)
	binary.LittleEndian.PutUint64(p[8:], epoch)
	binary.LittleEndian.PutUint64(p[16:], size)
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	var sendErr error
	// Control keeps the descriptor alive while it is sent, without Fd, which would
	// make it blocking.
	if err := raw.Control(func(fd uintptr) {
		_, _, sendErr = c.WriteMsgUnix(p[:], unix.UnixRights(int(fd)), nil)
	}); err != nil {
		return err
	}
	return sendErr
}

// receiveArena reads the hello and takes the descriptor.
func receiveArena(c *net.UnixConn, deadline time.Time) (f *os.File, size, epoch uint64, err error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return nil, 0, 0, err
	}
	var p [helloSize]byte
	oob := make([]byte, unix.CmsgSpace(4*4)) // room to see that there is more than one
	n, oobn, _, _, err := c.ReadMsgUnix(p[:], oob)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("handshake: %w", err)
	}
	files, err := descriptors(oob[:oobn])
	if err != nil {
		return nil, 0, 0, err
	}
	if n != helloSize || string(p[:8]) != magic || len(files) != 1 {
		closeAll(files)
		return nil, 0, 0, fmt.Errorf("%w: %d bytes and %d descriptors, want %d and 1", ErrForeign, n, len(files), helloSize)
	}
	return files[0], binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[8:]), c.SetReadDeadline(time.Time{})
}

// descriptors takes every descriptor that came, so that none leaks.
func descriptors(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: control message: %w", ErrForeign, err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // credentials or the like: not ours to judge
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "arena"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
