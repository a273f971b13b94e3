// Package reader is what consumers import: it tails shards out of a node's
// memory, and falls back by itself when that fails.
//
//	c, err := reader.Open(ctx, reader.Config{Server: "node1:7471"})
//	r, err := c.Reader(ctx, "logs/0000", reader.Earliest())
//	for {
//		b, err := r.Next(ctx) // b.Data is lent until the next call
//	}
//
// A Cluster is a process's view of one node: its connections, one poller and the
// limits that protect the durable store. A Reader follows one shard from a
// position. Delivery is at least once, in order, without a gap; the position is
// the key to drop duplicates by.
//
// # How bytes get here
//
// The poller reads the length pages of all followed shards, one READ a page,
// every 1 to 100 ms. When a length has moved, the Reader's next call reads
// [position, length) from the extents that hold it, with their descriptors, in
// one batch, and proves every chunk by its CRC before it lends it. Of a chunk
// that grows it reads only the new bytes and continues the CRC of those it had
// (a delta read). While there is a backlog the next batch is on its way already.
//
// Nothing is trusted but what a CRC bound to the shard and the chunk covers; a
// place in the node's tables, once found, is remembered without being checked,
// as a wrong memory cannot pass that CRC.
//
// # Order of resort
//
//  1. the best memory transport that is up (shm, rdma, tcp), again at once when
//     bytes were torn or their slot was reused;
//  2. the next memory transport;
//  3. the durable store: at once where the cache has a hole, else when bytes
//     that exist have been missing for 1 s. One read serves all Readers of a
//     shard; reads at once and bytes a second are limited.
//
// Bytes of the store are believed if the shard has its incarnation after the read.
//
// Each step counts under its reason (see Stats). A transport that failed rests
// for 50 ms, longer each time up to 2 s; a lost connection is dialled again with
// full jitter, so that a Reader comes back to memory by itself.
//
// # What it costs
//
// A Reader that waits takes 3.3 KiB and no goroutine; the memory that bytes land
// in is its connection's, and it has some of that only from a Next until the next
// one: 64 MiB for all Readers over shm or tcp, rdma.Config.BufferBytes over rdma.
// Who finds it used up reads less at once, or a little later; batches that are held
// for long starve the others. Durable bytes that are kept for Readers that come
// within a second are 16 MiB at most.
//
// # What a length means
//
// Bytes below the greatest length seen exist and may be read; a smaller length
// seen later is a stale one. Whether a quiet shard is idle or its cache is behind
// is told by the producer's heartbeat: while it beats, the published length is
// the shard's; when it stops, the durable store is asked, ever more rarely.
package reader
