// Package watch follows a cluster: it surveys it again and again (package survey), and
// says of each survey what has happened since the one before: rates, ages, and the
// state of each shard with its cause (package cause). A node's page and `rmatail top`
// show its Frames.
//
// Rates are differences of what nodes count, by the watcher's clock; a node that was
// restarted meanwhile has none for one Frame. Ages of heartbeats and of lags go by when
// the watcher has seen something change, so that clocks are not compared; hence they
// are not known before something has been seen twice.
//
// A watcher is a client among others. It keeps one connection to each node, and costs
// each of them a ping, its statistics, a few reads of lengths and identities, and a
// look at the leases. What consumers read over shared memory and RDMA passes no node,
// and is in no Frame: their bytes, lag and latency are in the metrics of package reader.
package watch
