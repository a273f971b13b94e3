// Package local reads a node's arena through a read-only mapping, for consumers
// on the same host. The node's process takes no part in a read.
//
// # Handshake
//
// The node listens on a Unix stream socket. To each connection it writes one
// message of 32 bytes, with the arena's memory file as its only SCM_RIGHTS
// descriptor:
//
//	 0  8  magic "RMATSHM\x01"
//	 8  8  node epoch
//	16  8  arena size in bytes
//	24  8  zero
//
// Nothing else is ever sent. The connection stays open for as long as the
// consumer reads: its end is how either side learns that the other is gone. A
// node that is merely stopped keeps it open, and can be read.
//
// # Trust
//
// The file is sealed by the node: it cannot shrink (a mapping of a file that
// does would raise SIGBUS) and cannot be mapped writable again
// (F_SEAL_FUTURE_WRITE, fcntl(2)), so that a consumer can only read. A consumer
// refuses a file without the first seal. Whoever may connect to the socket may
// read all of the arena: the socket's mode and directory are the access control.
//
// # Order
//
// A read is a copy by the CPU: no order inside it or between reads may be relied
// upon, just as with a NIC. Aligned 8-byte words are copied whole.
package local
