// Package rdma reads the memory of another host one-sidedly, with RDMA READ over
// a reliable connection: RoCE v1 and v2, InfiniBand, soft-RoCE. The process that
// exports the memory does nothing for a READ; its device answers.
//
// # The two ends
//
// The reading end Prepares a Dial for a peer: device, port and GID are chosen, a
// queue pair and its receive buffers are made. It sends Dial.Offer over a channel
// that authenticates the peer, gets an answer back, and Finishes the Dial to a
// Conn. The exporting end makes one Export of its memory, and answers each offer
// with Export.Accept, whose Responder it closes when the channel ends. Offer and
// answer are opaque to the channel, at most 96 bytes.
//
// # Reading
//
// A Conn makes Batches: up to 256 READs that are posted in one call and waited
// for together. Any number of goroutines may read over one Conn, each with its
// own Batch; whoever waits polls for all. A waiting goroutine spins for a
// bounded, adaptive time and then sleeps in Go's netpoller.
//
// What a READ guarantees is little: the bytes of one READ, and the READs of a
// batch, are taken in no order (IBA specification 1.4, section 9.5), and only an
// aligned 8-byte word is taken at once. Verify what was read with a checksum. A
// READ of a batch that was waited for before has happened before one that is
// posted after.
//
// # Failing
//
// A failed READ takes the queue pair with it. Every batch then gets the first
// error, the root cause, Conn.Lost is closed, and all work requests are settled
// exactly once before their memory is used again; Stats counts them. Decide says
// whether to connect again, to repeat the handshake, or to stop trying. Backoff
// spaces the attempts.
//
// # Choosing
//
// Devices and GIDs are chosen anew for each attempt: see DeviceFor and ChooseGID.
// A Choice and a Trace say what was taken and why not the others.
package rdma
