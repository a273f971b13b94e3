// Package trace follows RoCE v2 connections in captured packets: how many READs
// there were, how long each took from its request to its last response, what
// was sent again, came out of order or was refused.
//
// # What a capture shows
//
// A packet names the queue pair that it goes to, not the one that it comes
// from. The two directions of a connection are paired by what they say: a READ
// response repeats the sequence number (PSN) of its request, and a queue pair
// begins at a random one. A direction whose counterpart is not in the capture
// is shown alone.
//
// A READ of n packets' length takes n sequence numbers, its responses have them
// one by one. What comes with a number that was seen before is sent again
// (retransmits of requests, repeats of responses). A number beyond the next one
// leaves a gap; what fills it later is late, what does not is missing: lost
// before it came here, or by the capture itself, which says how many it lost.
//
// Soft-RoCE passes through the kernel's network stack, so any capture sees it.
// Hardware bypasses the kernel: a capture on its netdev sees nothing, and the
// packets must come from a mirror port or from a capture by the device itself
// (libpcap opens RDMA devices by their names where it was built with that).
//
// # Bounds
//
// A Table tracks a number of connections that is a setting; each takes up to
// 32 KiB. When there are more, the one that was silent for longest is folded
// into one row for all such. Frames are used as they come and not kept.
package trace
