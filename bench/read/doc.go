// Package read measures reads of a node's arena: over shared memory, RDMA and
// TCP, against the floor of each on the same machine, in turn.
//
// The node is a process of its own ('rmatail serve' with a durable directory). It
// is filled with Shards shards of ShardBytes and a partial chunk each. Readers
// read them, each over a connection of its own, from this process.
//
// # What is read
//
//	word     the length word of a shard, 8 B
//	line     64 B at the beginning of a chunk
//	raw      a chunk, 4,096 B, not verified
//	chunk    a chunk, and the descriptors of its extent (128 B, once for each run of chunks of an extent); its CRC is computed and
//	         compared
//	delta    the last 200 B of a partial chunk; the CRC of what is before them is continued and compared with the entry's
//	backlog  verified chunks as package reader delivers them, from the first to the last of a shard, and again; batches are its own
//
// Reads go round the shards. A chunk follows another in its extent; extents take
// turns between shards.
//
// # How
//
// Mode latency has one read under way, timed each. Mode rate posts batches of 1,
// 16 and 64 reads in one call and waits for the batch, InFlight of them on their
// way (1), each timed from the end of the one before; batches of shm are not,
// as that would take as long as they do. One measurement of For is a cell.
// In each of Rounds rounds every cell is measured next to its floor, the floor
// first in every other round, so that what else the machine does meets both.
// Ratio is ours by the floor's in one round: of the rates, or in mode latency
// of the medians (t_typical; less is better).
//
// # Floors
//
//	shm   a copy out of a shared mapping of the same size, with CRC32C where ours verifies, in a loop
//	rdma  bench/verbs_floor, a program in plain C: the same READs at the same settings, in the same batches; for reads that are
//	      not verified, as under emulation a CRC takes as long as a third of the read
//	tcp   a plain pipelined Go server, a process of its own, that answers requests of 16 B with bytes of a buffer; batches are
//	      written in one call and read in one
//
// # Peers
//
// Raw reads over tcp are compared with GETs of a value of 4 KiB from a redis-server, where there is one: 64 in a batch on one connection,
// and 16 on each of 512. All read one value, or one chunk. Redis keeps no files. Its client writes the requests of a batch in one call and reads the answers in one. Both
// take turns in every round.
//
// # Columns, and keys of JSON
//
// Names are perftest's (ib_read_lat, ib_read_bw) where it has one; MB is 2^20
// bytes as there. Keys are an interface.
//
//	command, environment         what was run where, on which commit
//	device                       of RDMA: device, gid_type, mtu_bytes, reads_in_flight; absent without RDMA
//	settings                     readers, shards, shard_bytes, in_flight, seconds (of a cell), rounds
//	rows                         each cell, its figures medians of the rounds'
//	  transport, read, mode, batch, bytes
//	  ours, floor                figures; floor is absent where there is none
//	    reads                    #iterations
//	    seconds
//	    t_min_usec, t_max_usec, t_typical_usec (the median), t_avg_usec, t_stdev_usec, p10_usec, p90_usec, p99_usec, p99_9_usec
//	                             of a read, in mode rate of a batch; absent where batches are not timed
//	    bw_peak_mbps             BW peak[MB/sec], of the fastest twentieth
//	    bw_average_mbps          BW average[MB/sec]
//	    msg_rate_mpps            MsgRate[Mpps], millions of reads a second
//	    allocs_per_read          of this process; absent in the figures of a floor
//	    client_cpu_usec_per_read, server_cpu_usec_per_read
//	    client_cpu_usec_per_mb, server_cpu_usec_per_mb
//	  ours_spread, floor_spread  least and most of t_typical_usec or msg_rate_mpps
//	  ratio                      median, least and most of ours by floor
//	one_sided                    the node while reads of 4 KiB go on, and while none do, windows of the same length in turn
//	  transport, reads (of the window with the fewest), seconds
//	  busy_usec, idle_usec       its processor time, that of all its threads as the scheduler counts it (median, least, most of a window)
//	  ratio                      busy by idle
//	  excess_nsec_per_read       busy less idle
//	  busy_wakes, idle_wakes     how often its threads were woken
//	peers                        each comparison, its figures medians of the rounds'
//	  peer, connections, depth (reads of a batch), ours, theirs (figures)
//	  rate_ratio, p99_ratio, server_cpu_ratio
//	                             median, least and most of ours by theirs: of msg_rate_mpps, p99_usec (of a batch) and server_cpu_usec_per_mb
//	claims                       what must hold of five rounds or more: claim, measured (median, least, most), holds
//	rounds, peer_rounds          rows and peers of every round
//
// Processor time of soft-RoCE is the kernel's and in no process; that of a read's
// copy to or from a socket is the process's. CRC32C of a chunk takes 0.2 us on a
// processor and 36 us under emulation.
package read
