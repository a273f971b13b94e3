//go:build linux && cgo && !noverbs

package ibverbs

// #cgo linux LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"
)

// load finds libibverbs.so.1, once for the process.
func load() error {
	var why *C.char
	if C.rm_load(&why) != 0 {
		return fmt.Errorf("%w (%s)", ErrNoLibrary, C.GoString(why))
	}
	return nil
}

// Devices lists the RDMA devices that have a provider library. None at all is an
// empty list; a kernel without verbs is an *Error with ENOSYS.
func Devices() ([]DeviceInfo, error) {
	if err := load(); err != nil {
		return nil, err
	}
	for n := 16; ; n *= 2 {
		raw := make([]C.struct_rm_device, n)
		got := int(C.rm_devices(&raw[0], C.int(n)))
		if got < 0 {
			errno := syscall.Errno(-got)
			return nil, &Error{Op: "ibv_get_device_list", Errno: errno, Hint: openHint(errno)}
		}
		if got > n {
			continue
		}
		list := make([]DeviceInfo, got)
		for i := range list {
			list[i] = DeviceInfo{Name: C.GoString(&raw[i].name[0]), GUID: fromNet(raw[i].guid)}
		}
		return list, nil
	}
}

// Context is an opened device. Close it last, after all that was made from it.
type Context struct {
	name    string
	ptr     unsafe.Pointer
	asyncFD int
	vectors int
}

// Open opens the device of that name.
func Open(name string) (*Context, error) {
	if err := load(); err != nil {
		return nil, err
	}
	c := &Context{name: name}
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var fd, vectors C.int
	if errno := C.rm_open(s, &c.ptr, &fd, &vectors); errno != 0 {
		return nil, &Error{Op: "ibv_open_device", On: name, Errno: syscall.Errno(errno), Hint: openHint(syscall.Errno(errno))}
	}
	c.asyncFD, c.vectors = int(fd), int(vectors)
	return c, nil
}

// Name returns the name the context was opened with.
func (c *Context) Name() string { return c.name }

// Vectors returns the number of completion vectors.
func (c *Context) Vectors() int { return c.vectors }

// Close closes the device. It fails with EBUSY while objects made from it live.
func (c *Context) Close() error {
	if c.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_close(c.ptr); errno != 0 {
		return &Error{Op: "ibv_close_device", On: c.name, Errno: syscall.Errno(errno)}
	}
	c.ptr = nil
	return nil
}

// QueryDevice returns the limits of the device.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	if c.ptr == nil {
		return DeviceAttr{}, ErrDestroyed
	}
	var a C.struct_rm_device_attr
	if errno := C.rm_query_device(c.ptr, &a); errno != 0 {
		return DeviceAttr{}, &Error{Op: "ibv_query_device", On: c.name, Errno: syscall.Errno(errno)}
	}
	return DeviceAttr{
		Firmware:        C.GoString(&a.firmware[0]),
		NodeGUID:        fromNet(a.node_guid),
		VendorID:        uint32(a.vendor_id),
		PartID:          uint32(a.vendor_part_id),
		HWVersion:       uint32(a.hw_ver),
		Ports:           int(a.ports),
		MaxMRSize:       uint64(a.max_mr_size),
		MaxQP:           int(a.max_qp),
		MaxQPWR:         int(a.max_qp_wr),
		MaxCQ:           int(a.max_cq),
		MaxCQE:          int(a.max_cqe),
		MaxMR:           int(a.max_mr),
		MaxPD:           int(a.max_pd),
		MaxRdAtomic:     int(a.max_qp_rd_atom),
		MaxInitRdAtomic: int(a.max_qp_init_rd_atom),
		MaxResRdAtomic:  int(a.max_res_rd_atom),
	}, nil
}

// QueryPort returns the state of a port, numbered from 1.
func (c *Context) QueryPort(port int) (PortAttr, error) {
	if c.ptr == nil {
		return PortAttr{}, ErrDestroyed
	}
	var a C.struct_rm_port_attr
	if errno := C.rm_query_port(c.ptr, C.int(port), &a); errno != 0 {
		return PortAttr{}, &Error{Op: "ibv_query_port", On: fmt.Sprintf("%s port %d", c.name, port), Errno: syscall.Errno(errno)}
	}
	return PortAttr{
		State:     PortState(a.state),
		Link:      LinkLayer(a.link_layer),
		MaxMTU:    mtuOf(uint32(a.max_mtu)),
		ActiveMTU: mtuOf(uint32(a.active_mtu)),
		LID:       uint16(a.lid),
		SMLID:     uint16(a.sm_lid),
		MaxMsg:    uint32(a.max_msg_sz),
		GIDs:      int(a.gid_table_len),
	}, nil
}

// GIDTable returns the live rows of all ports, by port and index. Holes are left
// out. Where the library is older than rdma-core 32, rows are asked for one by
// one, and their type and netdev are not known.
func (c *Context) GIDTable() ([]GIDEntry, error) {
	if c.ptr == nil {
		return nil, ErrDestroyed
	}
	attr, err := c.QueryDevice()
	if err != nil {
		return nil, err
	}
	rows := 0
	for port := 1; port <= attr.Ports; port++ {
		p, err := c.QueryPort(port)
		if err != nil {
			return nil, err
		}
		rows += p.GIDs
	}
	raw := make([]C.struct_rm_gid, max(rows, 1))
	n := int(C.rm_gid_table(c.ptr, &raw[0], C.int(len(raw))))
	switch {
	case n == -int(syscall.ENOSYS), n == -int(syscall.EOPNOTSUPP):
		return c.gidsOneByOne(attr.Ports)
	case n < 0:
		return nil, &Error{Op: "ibv_query_gid_table", On: c.name, Errno: syscall.Errno(-n)}
	}
	table := make([]GIDEntry, 0, n)
	for i := range raw[:n] {
		e := gidEntry(&raw[i])
		e.Type = GIDType(raw[i]._type) + 1
		table = append(table, e)
	}
	return table, nil
}

func (c *Context) gidsOneByOne(ports int) ([]GIDEntry, error) {
	var table []GIDEntry
	for port := 1; port <= ports; port++ {
		p, err := c.QueryPort(port)
		if err != nil {
			return nil, err
		}
		for i := range p.GIDs {
			var raw C.struct_rm_gid
			if C.rm_query_gid(c.ptr, C.int(port), C.int(i), &raw) != 0 {
				continue // a hole: ENODATA or EINVAL by device
			}
			if e := gidEntry(&raw); e.GID != [16]byte{} {
				table = append(table, e)
			}
		}
	}
	return table, nil
}

func gidEntry(raw *C.struct_rm_gid) GIDEntry {
	e := GIDEntry{Index: int(raw.index), Port: int(raw.port), Ifindex: int(raw.ifindex)}
	for i := range e.GID {
		e.GID[i] = byte(raw.raw[i])
	}
	return e
}

// AsyncFD returns the descriptor that turns readable when TakeAsyncEvent has
// something. It is O_NONBLOCK, and closed by Close: duplicate it for os.NewFile.
func (c *Context) AsyncFD() int { return c.asyncFD }

// TakeAsyncEvent takes and acknowledges one event; ok is false when there is
// none. It does not block.
func (c *Context) TakeAsyncEvent() (e AsyncEvent, ok bool, err error) {
	if c.ptr == nil {
		return AsyncEvent{}, false, ErrDestroyed
	}
	var raw C.struct_rm_event
	switch errno := syscall.Errno(C.rm_take_async_event(c.ptr, &raw)); errno {
	case 0:
		return AsyncEvent{Type: EventType(raw._type), Port: int(raw.port), QPN: uint32(raw.qpn), CQ: uint32(raw.cq_handle)}, true, nil
	case syscall.EAGAIN:
		return AsyncEvent{}, false, nil
	default:
		return AsyncEvent{}, false, &Error{Op: "ibv_get_async_event", On: c.name, Errno: errno}
	}
}

// fromNet reads a number that C holds in network byte order.
func fromNet(v C.uint64_t) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(v))
	return binary.BigEndian.Uint64(b[:])
}
