package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/google/gopacket/layers"
)

// LiveConfig says how to capture. The zero value is usable.
type LiveConfig struct {
	// Snaplen is how much of each frame is taken. 0: 65,535, all of it. From 128 on
	// everything but the ICRC check works.
	Snaplen int
	// Buffer is the kernel's room for frames that are not taken yet, in bytes.
	// 0: 32 MiB. Without CAP_NET_ADMIN sysctl net.core.rmem_max bounds it.
	Buffer int
}

const (
	defaultSnaplen = 65535
	defaultBuffer  = 32 << 20
)

func (c LiveConfig) withDefaults() LiveConfig {
	if c.Snaplen <= 0 || c.Snaplen > defaultSnaplen {
		c.Snaplen = defaultSnaplen
	}
	if c.Buffer <= 0 {
		c.Buffer = defaultBuffer
	}
	return c
}

// live is a Source that captures RoCE v2 packets from a netdev.
//
// It is a packet socket of its own instead of pcapgo's EthernetHandle: that one
// blocks in a system call until the next packet, which may never come, it has
// room for some fifty frames only, and it takes VLAN tags out of frames.
type live struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte // a VLAN tag's room, then the frame
	oob  []byte
	// By the kernel's count, when it was last asked: frames that passed the filter,
	// and those of them that there was no room for.
	passed, lost uint64
	taken        uint64 // frames that were received
	stopped      atomic.Bool
	ending       bool   // Next has seen it
	left         uint64 // to return before the end
}

// vlanRoom is where a tag is put back: in front of it the two MAC addresses move.
const vlanRoom = 4

// OpenLive captures the RoCE v2 packets that a netdev sends and receives, of all
// VLANs on it. Close it. Errors: ErrPermission, ErrNetdev.
func OpenLive(netdev string, c LiveConfig) (Source, error) {
	c = c.withDefaults()
	dev, err := net.InterfaceByName(netdev)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrNetdev, netdev, err)
	}
	// Without a protocol it gets nothing until it is bound, behind its filter.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) {
		return nil, ErrPermission
	}
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if err := prepare(fd, dev.Index, c); err != nil {
		return nil, errors.Join(fmt.Errorf("capture on %s: %w", netdev, err), unix.Close(fd))
	}
	l := &live{file: os.NewFile(uintptr(fd), "capture on "+netdev), buf: make([]byte, vlanRoom+c.Snaplen), oob: make([]byte, 256)}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("capture on %s: %w", netdev, err), l.file.Close())
	}
	return l, nil
}

func prepare(fd, ifindex int, c LiveConfig) error {
	program, err := bpf.Assemble(filter(uint32(c.Snaplen)))
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	code := make([]unix.SockFilter, len(program))
	for i, in := range program {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, c.Buffer); err != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, c.Buffer); err != nil {
			return fmt.Errorf("receive buffer: %w", err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
		return fmt.Errorf("VLAN tags: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fmt.Errorf("time stamps: %w", err)
	}
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: ifindex})
}

func htons(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// Next waits for the next frame in Go's netpoller.
func (l *live) Next() (Frame, error) {
	for {
		var f Frame
		var failed error
		err := l.raw.Read(func(fd uintptr) bool {
			f, failed = l.receive(int(fd))
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil && l.stopped.Load():
			return l.rest()
		case err != nil:
			return Frame{}, fmt.Errorf("capture: %w", err)
		case errors.Is(failed, unix.EINTR):
		case errors.Is(failed, unix.ENETDOWN):
			return Frame{}, fmt.Errorf("%w went down", ErrNetdev)
		case failed != nil:
			return Frame{}, fmt.Errorf("capture: %w", failed)
		default:
			return f, nil
		}
	}
}

// rest returns what the kernel had captured when it was first called after Stop.
// The frames' times cannot tell that: the kernel begins to stamp them a little
// after it was asked to, and stamps those before when they are taken.
func (l *live) rest() (Frame, error) {
	if !l.ending {
		l.ending = true
		l.Lost()
		l.left = l.passed - l.lost - l.taken
	}
	var f Frame
	failed := error(io.EOF)
	if l.left > 0 {
		l.left--
		if err := l.raw.Control(func(fd uintptr) { f, failed = l.receive(int(fd)) }); err != nil {
			failed = err
		}
	}
	if failed != nil {
		return Frame{}, io.EOF
	}
	return f, nil
}

// Stop wakes Next, and lets it return what came before.
func (l *live) Stop() {
	l.stopped.Store(true)
	_ = l.file.SetReadDeadline(time.Unix(1, 0)) // fails only when closed
}

// What the kernel says beside a frame: struct timespec (time.h), and struct
// tpacket_auxdata (linux/if_packet.h).
const (
	auxStatus, auxLen, auxTCI, auxTPID, auxSize = 0, 4, 16, 18, 20
)

func (l *live) receive(fd int) (Frame, error) {
	n, oobn, _, _, err := unix.Recvmsg(fd, l.buf[vlanRoom:], l.oob, unix.MSG_TRUNC)
	if err != nil {
		return Frame{}, err
	}
	l.taken++
	f := Frame{Length: n, Link: layers.LinkTypeEthernet, Time: time.Now()}
	f.Data = l.buf[vlanRoom : vlanRoom+min(n, len(l.buf)-vlanRoom)]
	native := binary.NativeEndian
	for rest := l.oob[:oobn]; len(rest) >= unix.CmsgLen(0); {
		h, data, next, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		rest = next
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS && len(data) >= 16:
			f.Time = time.Unix(int64(native.Uint64(data)), int64(native.Uint64(data[8:])))
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS && len(data) >= 8:
			f.Time = time.Unix(int64(native.Uint32(data)), int64(native.Uint32(data[4:])))
		case h.Level == unix.SOL_PACKET && h.Type == unix.PACKET_AUXDATA && len(data) >= auxSize:
			f.Length = int(native.Uint32(data[auxLen:])) // before the filter cut it
			status := native.Uint32(data[auxStatus:])
			if status&unix.TP_STATUS_VLAN_VALID == 0 || len(f.Data) < 12 {
				continue
			}
			protocol := uint16(layers.EthernetTypeDot1Q)
			if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
				protocol = native.Uint16(data[auxTPID:])
			}
			l.putTag(&f, protocol, native.Uint16(data[auxTCI:]))
		}
	}
	return f, nil
}

// putTag puts a VLAN tag back to where it was on the wire.
func (l *live) putTag(f *Frame, protocol, tci uint16) {
	f.Data = l.buf[:vlanRoom+len(f.Data)]
	copy(f.Data, f.Data[vlanRoom:vlanRoom+12])
	binary.BigEndian.PutUint16(f.Data[12:], protocol)
	binary.BigEndian.PutUint16(f.Data[14:], tci)
	f.Length += vlanRoom
}

// Lost asks the kernel, which counts from the last question on.
func (l *live) Lost() uint64 {
	_ = l.raw.Control(func(fd uintptr) {
		if s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			l.passed += uint64(s.Packets)
			l.lost += uint64(s.Drops)
		}
	})
	return l.lost
}

// Close ends the capture.
func (l *live) Close() error { return l.file.Close() }
