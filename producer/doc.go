// Package producer is what producers import: an Appender writes the records of
// one shard, or of several, to the durable store, and mirrors the recent bytes and
// the length into a cache, from where consumers read them.
//
// # Queue and batches
//
// Append copies a record into a bounded queue and returns an Ack, which resolves
// with the record's position. One goroutine a shard takes whole batches out of
// it, in order: records that came while a batch was on its way become the next
// one, up to Limits.BatchRecords or BatchBytes. Before an idle sink a record goes
// at once. So the sink's fixed cost, a flush to the disk, is paid once a batch.
// A batch is a whole number of records and one append of the log, which keeps it
// or loses it as a whole: no record is ever torn.
//
// A full queue blocks, or drops what Policy says. Blocked producers are let in when
// half of the queue is free, so that they are woken once for many records: woken for
// each batch, they cost a sink that takes several writes at once a tenth of its
// throughput. A long queue would only add waiting: the default is short, blocking
// and lossless. Drops are returned or
// resolve the Ack with ErrDropped, are counted, and logged once a second with
// their number.
//
// There is one batch on its way for each shard: two gave nothing when measured
// (BenchmarkTwoUnderWay: the time goes into the flush, and the log has one at a
// time), and would make an offset depend on whether the one before succeeds. Many shards
// write at once; Workers bounds how many, so that goroutines wait for each other
// and not all for the disk.
//
// # Several shards
//
// A sink that takes several writes at once is kept busy by an Appender of several
// shards, Config.More: one queue, and each batch goes to the shard that is free
// first. A shard whose sink hangs holds up the batch that it has, and nothing else;
// one whose sink fails is left alone for a moment, so that it does not get what
// others would take. One of the shards does not let other goroutines run between its
// batches while many wait, as otherwise flushes would hold all processors, and half of
// the shards be idle (see steady.go); its Acks may resolve up to 30 ms late then, when
// all other shards hang. (An Appender for each shard and records dealt out in turn does
// half as much: the slowest shard's full queue stops the producer, and the other
// queues run dry. See bench/results.) The records of a producer are in its order
// within each shard, and nowhere else; Ack.Shard tells where one came to lie.
//
// # Order
//
// One batch does, in this order:
//
//  1. it is appended to the durable log, at the offset that the Appender expects,
//     and is durable by the log's policy. Only this step can fail it.
//  2. the chunks that it touches are put into the cache: the tail chunk as a
//     delta that continues what the cache holds of it, later ones from their start.
//  3. the new length is published, with the CRC of the tail chunk's prefix.
//  4. the Acks of its records resolve.
//
// A length is published only when the put of its tail chunk has succeeded: what
// a consumer is promised it can check. Complete chunks below may be missing from
// the cache (it was away, or has evicted them). Such a hole is legal: consumers
// take it from the durable store.
//
// # Cache trouble
//
// The cache never fails a batch, and bounds itself what it adds to one. What it
// does not take is counted under its reason and tried again with the next batch.
// Then the cache jumps: the whole tail chunk is put, the length published, what
// lies between is a hole.
//
// An idle Appender does the same once a Config.Heartbeat: consumers tell an idle
// producer from a dead one by it, and a node that was restarted empty learns the
// tail and the length again.
//
// # Replicas
//
// A ReplicaCache is the cache of a cluster. A put goes to all replicas of its
// extent at once, and is done when a quorum of the full ones has answered; a length
// goes to the metadata replicas of its page, with a quorum of its own. The others
// are not waited for: they go on with a copy of the bytes, from a queue for each
// node that is bounded in bytes. Nodes of the same process are called directly. A
// node that lacks what a delta continues gets that chunk from its start.
//
// A node that fails, or does not answer within ReplicaConfig.Timeout, is suspended:
// its queue is given up, and nobody waits for it, or sends to it, before a
// connection to it works again, which is tried after a rest of random length, up to
// 50 ms at first and 5 s later. A quorum shrinks to the full replicas that are not
// suspended (counted as degraded), down to one; with none, the put fails, and the
// length is not published. A node that is back gets what it is to hold, but is
// not waited for before it has answered something, unless nobody else takes it: one
// that connects and then is too slow again must not stop the writer each time. So
// the nodes that fail cost a writer one timeout, once, and those that answer well at
// times and badly at others one now and then.
//
// What a full replica has missed is a gap, and so is what was put to a node that
// comes back with another epoch, as it was restarted empty, and what the node has
// gained by another View. Repair closes gaps in the background: it puts the bytes
// again from the durable store, at a bounded rate, unless they are older than the
// time to live, or than what the node's arena has room for. Bytes of a shard that
// was deleted and made again are told by its incarnation. A gap that cannot be
// closed now, as the store does not read it, lets the others go first, and a node
// that is slow in taking holds up the repair of no other one. Partial replicas are
// not repaired.
//
// # Lease
//
// An Appender whose cache has leases takes that of its shard when it is opened, with
// a ballot above all that a quorum of the metadata replicas has seen, and publishes
// under it, which renews it. The nodes refuse the publications of a writer with a
// smaller ballot: one refusal ends it with ErrLeaseLost. Without a quorum to ask the
// Appender runs on without a lease, publishes where nobody else has one, and
// tries again at each heartbeat, then without taking it from another writer, who
// must be newer.
//
// The lease only keeps two writers from wasting each other's work. What keeps the
// order is the log, which refuses an append at another offset than its length
// (ErrFenced). An idle Appender looks at each heartbeat whether the store has more
// than it knows, and ends with the same: its heartbeat must not tell consumers
// that they have everything.
//
// # Errors
//
// Errors of the durable store resolve the Acks of the batch as they are, and end
// nothing: the next batch tries again, and a full disk is waited for if
// Config.WaitForSpace says so. After a failed one the Appender first flushes the
// log and looks how long it has become: an append that was given up may have come
// through, and is mirrored then. A log that has another length without that ends
// the Appender with ErrFenced, as two writers must not interleave.
//
// # Measuring
//
// Stats has what is needed to choose a queue: the spread of the sink's latency,
// peak and mean of arrivals, depth, drain time. The same are metrics.
package producer
