// Package plan computes what a cluster has to carry: how many one-sided reads and bytes
// consumers cost, what falls on each node's network card, how many nodes that takes and
// of which size, and what the durable store must bear when consumers start or a cache
// is lost.
//
// It is closed formulas, each of which it can print with its numbers. What they say of
// requests and bytes is held against bench/scale, where the reader's own code decides
// (a test of that package: requests within 8 %, what is moved beside the useful bytes within 10 %).
//
// All of it is means: a card that is asked by many at once has queues, which bench/scale
// shows and this does not.
package plan
