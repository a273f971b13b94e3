// Package cause tells why the delivery of a shard is slow, from what an observer
// knows: heartbeats, ages of lengths, and counters. It is pure: nothing in it reads a
// clock, waits or keeps state, and any goroutine may call it.
//
// # Who observes
//
// Three kinds of observers fill the same Facts, each as far as it knows:
//
//   - a node: the entries of its own length pages, its appenders, its store;
//   - a Reader's process: lengths, what it reads from where, its consumers;
//   - a survey from outside (`rmatail stat`): what nodes and the store tell.
//
// What an observer does not know stays unknown (Maybe): a node knows no consumer's
// position, and a state that would follow from one is not claimed. Known zeros and
// unknowns are different things.
//
// # Order
//
// The first of these that the facts show is the state; the causes further down are
// often the consequences of those above, or hidden by them.
//
//  1. Fine, if the shard is sealed, or closed by its writer, and its bytes are delivered.
//  2. ConsumerSlow: bytes wait to be taken, and the consumer does not take them.
//  3. DurableThrottled: what waits, waits for the durable store. (Why it is needed, as
//     when the cache is missing, is told in the evidence.)
//  4. CacheMissing: bytes that the cache should have come from the store, or have not
//     come yet.
//  5. ProducerStopped: no heartbeat for StoppedAfter, and the store does not grow.
//  6. ProducerSlow: heartbeats are late, or records wait before a quick store.
//  7. TransportDegraded: a better transport is there and not used, or reads fail.
//  8. Fine, if a sign of life or of completeness is known; else Unknown.
//
// A producer that has nothing to say is Fine: it beats. So is a shard that a consumer
// catches up with from far behind, over the durable store: those bytes are not the
// cache's any more.
package cause
