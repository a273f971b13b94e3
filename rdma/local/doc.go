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
//
// # Waking
//
// A memory file that is at least 4 bytes longer than its arena may have a wake word
// behind it, 32 bits in the host's byte order, by which consumers wait for changes of
// the arena instead of polling it:
//
//	0          the node never wakes: consumers poll
//	any other  it changes after each change of the arena that the node tells of (Wake)
//
// The word is a futex(2), shared. A consumer that waits has looked at the word, and
// then at what it waits for; FUTEX_WAIT_BITSET returns at once if the word has another
// value by then, so that no wake-up is lost. Its mapping may be read-only. The bits
// say which parts of the arena it is about: bit (o/32 + o/4096) mod 32 for the 32
// bytes at offset o. The node changes the word and wakes those that have one of the
// bits of what has changed, by one system call, and only while somebody is connected.
//
// A process has one thread that waits, however many batches do (Batch.PostWhen), while
// there are any. It waits 100 ms at most, each batch until its own time; the end of the
// connection ends both. What wakes it says nothing but that it is to look again; where that
// is for nothing again and again, it rests for a millisecond in between.
package local
