// Package reader is what consumers import: it tails shards out of the memory of a
// cluster's nodes, and falls back by itself when that fails.
//
//	c, err := reader.Open(ctx, reader.Config{Server: "node1:7471"}) // or Cluster: a cluster.Source
//	r, err := c.Reader(ctx, "logs/0000", reader.Earliest())
//	for {
//		b, err := r.Next(ctx) // b.Data is lent until the next call
//	}
//
// A Cluster is a process's view of the nodes of a site: its connections, one poller
// and the limits that protect the nodes and the durable store. It follows the Views
// of its Source: nodes that stay keep their connections, those that leave are let go
// when the reads under way have ended. A Reader follows one shard from a position.
// Delivery is at least once, in order, without a gap; the position is the key to drop
// duplicates by.
//
// # How bytes get here
//
// The poller reads the length pages of all followed shards, one READ a page,
// every 1 to 100 ms: of one of the page's replicas, drawn anew each time, all nodes
// at once. The greatest valid length counts, so that a replica that is behind costs
// a poll and not a byte. Over a transport whose node can wait for news (tcp), one of
// a page's replicas is asked to answer when a length moves, and polls only look, every
// PollMax, whether it is behind the others: no interval is waited for. What a lone
// shard is expected to bring is read along with its length. When a length has moved, the Reader's next call reads
// [position, length) from the extents that hold it, with their descriptors, in
// one batch, and proves every chunk by its CRC before it lends it. Of a chunk
// that grows it reads only the new bytes and continues the CRC of those it had
// (a delta read). While there is a backlog the next batches are on their way already,
// from several nodes where the extents are spread over several.
//
// Nothing is trusted but what a CRC bound to the shard and the chunk covers; a
// place in a node's tables, once found, is remembered without being checked,
// as a wrong memory cannot pass that CRC. Hence it does not matter either which
// replica bytes come from.
//
// # Whom to ask
//
// Of the replicas of an extent those with the best transport (shm, rdma, tcp), of
// these two at random, and of the two the one that was quicker lately. Left aside are
// nodes that rest because reads of them failed, and, while there are others, those
// that lacked bytes a moment ago. One where the place of the extent is known already
// is the first of the two: that saves looking the place up.
// A place is looked for in the first of its two candidate sets, and in the second when
// it is not there; in both at once where extents are often in the second. Partial replicas take part; that they lack bytes is
// normal and counted for itself.
//
// # Order of resort
//
//  1. a relaxed read of one replica, again at once when bytes were torn or their slot
//     was reused; of a full replica when a partial one lacks the bytes;
//  2. a second replica, when the first has not answered within 30 ms; who proves the
//     next byte first wins, and the other's memory is used again when its read has
//     settled;
//  3. a quorum read, all full replicas at once: any answer that is proven is right;
//  4. the replicas' next transports;
//  5. where every full replica that can be asked has a hole and one of them offers
//     it (server.Config.ReadThrough): that one reads the extent from the store, once
//     for all who miss it, and memory is read again;
//  6. the durable store: at once where there is a hole, else when bytes that exist
//     have been missing for 1 s. One read serves all Readers of a shard that are near
//     each other; reads at once and bytes a second are limited.
//
// Bytes of the store are believed if the shard has its incarnation after the read.
//
// Each step counts under its reason (see Stats), and Shards tells for each followed
// shard what is the matter if bytes come late (package cause). A transport that failed rests
// for 50 ms, longer each time up to 2 s; a lost connection is dialled again with
// full jitter, so that a Reader comes back to memory by itself.
//
// # What it costs
//
// A Reader that waits takes 2 KiB and no goroutine; the memory that bytes land
// in is its connection's, and it has some of that only from a Next until the next
// one: 64 MiB for all Readers of a node over shm or tcp, rdma.Config.BufferBytes over
// rdma. Who finds it used up reads less at once, or a little later; batches that are
// held for long starve the others. What is on its way over one network device is
// bounded by Config.BytesInFlight; who waits for a part of it is served in order.
// Durable bytes that are kept for Readers that come within a second are 16 MiB at
// most. A Reader may cap what it takes (Rate). Goroutines are for what is slow: a
// hedge, a quorum read, a node that does not tell its lengths in time.
//
// # What a length means
//
// Bytes below the greatest length seen exist and may be read; a smaller length
// seen later is a stale one. Whether a quiet shard is idle or its cache is behind
// is told by the producer's heartbeat: while it beats, the published length is
// the shard's; when it stops, or no replica of the length page answers, the durable
// store is asked, ever more rarely. A shard is absent from the cache only when every
// replica that can be asked has said so, twice.
package reader
