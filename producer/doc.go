// Package producer is what producers import: an Appender writes the records of
// one shard to the durable store, and mirrors the recent bytes and the length
// into a cache, from where consumers read them.
//
// # Order
//
// One Append does, in this order:
//
//  1. the record is appended to the durable log, at the offset that the Appender
//     expects, and is durable by the log's policy. Only this step can fail it.
//  2. the chunks that it touches are put into the cache: the tail chunk as a
//     delta that continues what the cache holds of it, later ones from their start.
//  3. the new length is published, with the CRC of the tail chunk's prefix.
//
// A length is published only when the put of its tail chunk has succeeded: what
// a consumer is promised it can check. Complete chunks below may be missing from
// the cache (it was away, or has evicted them). Such a hole is legal: consumers
// take it from the durable store.
//
// # Cache trouble
//
// The cache never fails an append and never holds one up for more than
// Config.CacheTimeout. A refusal is retried with the next record. A cache that
// does not answer is left alone until the next heartbeat. Then the cache jumps:
// the whole tail chunk is put, the length published, what lies between is a hole.
// Each omission is counted under its reason.
//
// An idle Appender does the same once a Config.Heartbeat: consumers tell an idle
// producer from a dead one by it, and a node that was restarted empty learns the
// tail and the length again.
//
// # Errors
//
// Errors of the durable store go to the caller as they are, and end nothing: the
// next Append tries again. After a failed one the Appender first flushes the log
// and looks how long it has become: an append that was given up may have come
// through, and is mirrored then. A log that has another length without that ends
// the Appender with ErrFenced, as two writers must not interleave.
package producer
