// Package scale is the published experiment of Fast ACS (USENIX ATC 2025) in virtual
// time: thousands of consumer processes whose every decision is taken by the code
// that takes it in the product (reader.Virtual), before nodes and a network that are a
// model.
//
// # What is real
//
// When lengths are polled and of which replica, what is read next, of whom and in how
// many one-sided reads of how many bytes, hedges, quorum reads, rests of failed paths,
// the delay of the durable store: package reader. Who holds what: chunkstore/placement.
// In how many pieces a batch is put: producer.Appender, over a log and a cache that
// only count.
//
// # What is a model
//
// A node is a queue: a request of R reads and B bytes that came at time t is served from
// max(t, when the node is free) for max(B*8/link, R/reads per second). Round trip RTT
// on top. A consumer's own link is such a queue too. What a NIC does besides, its caches
// and the fabric's congestion, no model knows.
//
// A shard's records come evenly. Its appender always has one batch on its way: what came
// during a batch is the next one, and a batch takes flush + RTT (put) + RTT (publish). A
// node that is lost answers nothing from one moment on, and nobody is told; where two of
// three replicas of a shard's tail are lost, its writer waits for its time-out once.
//
// Of many consumers a sample is simulated, each standing for as many as it takes: its
// requests weigh so much in the nodes' queues, which makes queues longer than they are.
// A reader here reads one batch of a shard at a time, has no backlog, and its bytes are
// not there, so that no checksum can fail.
package scale
