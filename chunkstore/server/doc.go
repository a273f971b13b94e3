// Package server is one node: an arena that consumers read one-sidedly, and the
// TCP protocol of fallback/wire around it.
//
// A node offers its arena in three ways, all of the same bytes at (offset,
// length): as a read-only mapping handed over a Unix socket, as a registered
// memory region, and by the operation ReadArena, answered by vectored writes
// from the arena itself. It takes puts and publishes from producers elsewhere,
// and holds their leases. With a durable directory it owns that store too: it takes
// appends, mirrors them into the arenas of its cluster (producer.ReplicaCache), of
// which its own is called directly, and serves durable reads, each under limits of
// its own. A node without Config.Cluster is a cluster of its own. With
// Config.ReadThrough it reads extents that readers miss from the cluster's durable
// store into its arena (operation Fill): once for all of them, a few at once, within
// a byte rate, and only those that the placement gives it.
//
// # A connection
//
// One goroutine reads the frames of a connection. Operations that only touch
// memory (ReadArena, Put, Publish, Lease, Ping) are answered in place: replies gather
// until no whole request is left in the input, or Limits.FlushBytes are reached,
// then leave in one writev. Operations that can wait (appends, the durable
// store, RDMA connections) run beside it, at most Limits.InFlight for each
// connection, and their replies overtake each other: a slow disk holds up no
// arena read that was pipelined behind. What exceeds a limit is refused with
// wire.ErrBusy; nothing queues without bound.
//
// A request that waits for news of a length page (AwaitArena) has no goroutine: it
// lies in a list of its page, bounded for each connection and for all. A publish
// looks at one word when nobody waits for its page, else it has a goroutine of the
// node's compare what they wait for; who has news is answered in a goroutine of its
// own, so that a client which does not read holds up no other.
//
// Appends of one connection to one shard keep their order, and so do their
// replies. Those of all connections go through one queue for each shard, that of
// its producer.Appender, so that one flush serves them together. A full queue
// makes them wait, within their deadlines; it never drops one.
//
// A panic in a connection ends that connection alone. It is counted, and the
// count must be zero: it is a bug.
//
// # States
//
// Once a second a node looks at the shards that are published on it, and decides by
// package cause how each fares: from heartbeats as they came here, from what its own
// appenders wait for, and from whether its arena has the shard's end. Stats and the
// metrics tell it, by name for as many shards as Config.ShardMetrics says.
//
// # Order
//
// Start: durable store, arena, Unix socket, RDMA, HTTP, and TCP last, so that a
// node that answers has everything. Stop, in Shutdown: no new connections, new
// requests are refused with wire.ErrClosing, those under way finish, appenders
// flush and close and give their leases back, then the connections to the cluster,
// the Unix socket and RDMA, the arena when nothing can touch its memory any more,
// and the store.
package server
