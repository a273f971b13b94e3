package trace

import (
	"golang.org/x/net/bpf"

	"github.com/google/gopacket/layers"
	"github.com/rmatail/rmatail/rdma/roce"
)

// filter is the kernel's filter of a capture: UDP to the RoCE port over IPv4
// without options or IPv6, behind one VLAN tag at most. What has two tags passes
// whatever it is. keep bounds what is copied of a frame.
//
// A tag may be in the frame, or the kernel has taken it out and put it beside;
// then the program does not see it, and need not. X is the length of the tag; it
// is 0 in the beginning (Linux, Documentation/networking/filter.rst).
func filter(keep uint32) []bpf.Instruction {
	const ip, port, accept, drop = 14, 18, 20, 19
	to := func(at, target int) uint8 { return uint8(target - at - 1) }
	return []bpf.Instruction{
		0:      bpf.LoadAbsolute{Off: 12, Size: 2},
		1:      bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(layers.EthernetTypeDot1Q), SkipTrue: to(1, 3)},
		2:      bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(layers.EthernetTypeQinQ), SkipTrue: to(2, 7)},
		3:      bpf.LoadConstant{Dst: bpf.RegX, Val: 4},
		4:      bpf.LoadAbsolute{Off: 16, Size: 2},
		5:      bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(layers.EthernetTypeDot1Q), SkipTrue: to(5, accept)},
		6:      bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(layers.EthernetTypeQinQ), SkipTrue: to(6, accept)},
		7:      bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(layers.EthernetTypeIPv6), SkipTrue: to(7, 15)},
		8:      bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(layers.EthernetTypeIPv4), SkipTrue: to(8, drop)},
		9:      bpf.LoadIndirect{Off: ip + 9, Size: 1},
		10:     bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(layers.IPProtocolUDP), SkipTrue: to(10, drop)},
		11:     bpf.LoadIndirect{Off: ip + 6, Size: 2},
		12:     bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: to(12, drop)}, // a later fragment
		13:     bpf.LoadIndirect{Off: ip + 20 + 2, Size: 2},
		14:     bpf.Jump{Skip: uint32(to(14, port))},
		15:     bpf.LoadIndirect{Off: ip + 6, Size: 1},
		16:     bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(layers.IPProtocolUDP), SkipTrue: to(16, drop)},
		17:     bpf.LoadIndirect{Off: ip + 40 + 2, Size: 2},
		port:   bpf.JumpIf{Cond: bpf.JumpEqual, Val: roce.Port, SkipTrue: to(port, accept)},
		drop:   bpf.RetConstant{Val: 0},
		accept: bpf.RetConstant{Val: keep},
	}
}
