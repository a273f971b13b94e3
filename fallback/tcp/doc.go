// Package tcp reads a node's arena over its TCP protocol: the resort for consumers that share no memory with the node and
// have no RDMA. The node copies, so that its processor pays for each read; everything else is as with the one-sided
// transports: a Batch of reads is planned, posted, waited for, and its bytes are verified by the reader, who gets them unchecked.
//
// A batch travels as one ReadArena request for many reads (one round trip and one reply for up to 256 reads or 1 MiB;
// several pipelined ones above that), and the reply lands in the batch's memory without another copy in this process than
// the socket's. Batches of all goroutines share one connection.
//
// Retrying: reads change nothing, a failed batch may be read again anywhere.
package tcp
