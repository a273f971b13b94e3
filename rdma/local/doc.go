// Package local reads a node's arena over a mapping of its memory file: the
// transport of a consumer on the node's own host. It has the shape of package
// rdma's connections (plan reads, post, wait) without a device.
//
// # Handing over
//
// A Server listens at a Unix socket. Who can open the socket file can read the
// arena; its mode is a setting, and a server may ask who the consumer is besides. A
// consumer connects and asks, the server answers, all integers little-endian:
//
//	request, 24 B and ticket   answer, 40 B
//	0  8  magic "RMATSHM\x01"  0  8  magic "RMATSHM\x01"
//	8  4  version (1)          8  4  version (1)
//	12 4  n, 0 to 64           12 4  status: 0 ok, 1 busy, 2 other version, 3 other epoch,
//	                                 4 denied
//	16 8  epoch (0: any)       16 8  epoch
//	24 n  ticket, if n > 0     24 8  arena size
//	                           32 8  size of the memory file, at least the arena's
//
// With status 0 the descriptor of the memory file comes along (SCM_RIGHTS,
// unix(7)). Its seals are checked on both sides. A file that could shrink would
// kill a consumer by SIGBUS: mmap(2). A file that consumers could write would not
// be a node's arena any more: memfd_create(2), F_SEAL_FUTURE_WRITE.
//
// # Life and death
//
// The connection then stays open and silent. Its end is the end of the node, at
// once also when the process is killed, as the kernel closes its sockets. The
// mapping would outlive the node, and show what was true when it died: it is
// never read after that. A node that is merely stopped keeps being read.
//
// Reads are plain copies: aligned 8-byte words are whole, and there is no order
// between them. Package chunkstore/layout says how to prove what was read.
package local
