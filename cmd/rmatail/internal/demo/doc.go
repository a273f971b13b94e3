// Package demo proves the main job on one host with real processes: a node that
// owns a durable directory (or a cluster of which one does), a producer that appends the lines of a real log to
// it at a stated rate, and consumers that follow the shard, each a process of its
// own.
//
// Right or wrong is decided by the files: every consumer opens the durable
// directory itself and compares each byte that it was given with what is there.
// The parent compares the directory with what it has appended.
//
// # Processes
//
//	parent      rmatail demo            producer, statistics
//	  node...   rmatail serve           its standard input is a pipe: it ends with the parent
//	  consumer  rmatail demo-consumer   one Snapshot a line on standard output;
//	                                    "end N" on standard input says where to stop
//
// Several nodes are a cluster: the parent writes its file, the first node owns the
// durable directory and mirrors to all, and consumers read whichever replica they
// choose. On request the last node is killed after a third of the time, and started
// again, empty, after two: nothing may be wrong or missing by that.
//
// # Delivery time
//
// The content stays the input's lines, so times travel beside it: before each
// append the parent writes one record (see samples) to a file that all consumers
// read. A consumer that is handed the bytes up to a position takes the time, and
// the records that end there or before tell how long ago those bytes were given
// to the node. The delivery time so contains the append itself: the way to the
// node, the flush to the disk, and the mirroring into memory. All processes read
// one clock, CLOCK_MONOTONIC of the host.
package demo
