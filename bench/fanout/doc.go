// Package fanout measures how records get from one producer to many consumers:
// by ours over each transport, and by what a user would take instead, on one
// machine, in turn.
//
// # Programs
//
//	shm, rdma, tcp  package reader, and a node with a durable directory, flushed once a second
//	naive           over shared memory, without package reader: polls the length, and reads the chunks whole that the news touch
//	redis-streams   XADD, XREAD BLOCK (with a poll: XREAD); append-only file, flushed once a second
//	redis-get       a key for each record of 4 KB and one for their number; MGET of that number, then GET
//	jetstream       nats-server in a process of its own; file store, ordered push consumers
//	nginx           a file that grows, and range requests for what is behind the bytes that a consumer has
//	memcached       as redis-get
//	plain           a plain Go server with the log in memory that answers when there is news: the floor of tcp
//	pread           a file that grows, and consumers that read it themselves: the floor of the peers that have files
//
// Peers are spoken to directly, each over its own protocol and without a client
// library. One that is not on the machine is skipped, and said to be.
//
// # Workloads
//
//	beat        64 records of 4,096 B a second
//	lines       5,000 records of 200 B a second, those of a millisecond at once
//	flood       records of 200 B, 64 KiB at once, as fast as they are taken
//	saturation  4,096 records of 4,096 B a second, those of a millisecond at once
//
// Records go to one shard, or to many in turn; a consumer follows all of them. What
// it gets is checked for gaps. Poll is the interval between the polls of consumers;
// without one they follow in the program's own way: ours by its default, redis,
// JetStream and plain by waiting at the server.
//
// # How
//
// Server, producer and consumers are processes of their own, consumers four to a
// process and in four processes at most. Consumers of peers have a connection each,
// and ours over tcp too; ours over shm and rdma share that of their process, as
// package reader has it. In each of Rounds rounds every server is started anew, and
// every cell is measured once: its producer runs for WarmUp and then For, which is
// the window. Cells of the same work follow each other, so that what else the
// machine does meets all programs. One with 0 consumers says what the producer
// alone costs the server.
//
// Delivery is from the moment when a record is to be handed to the program by the
// workload's schedule, by the host's monotonic clock, until a consumer has all of it: a
// program that holds its producer up has that counted. Those of flood, which has no
// schedule, count from when they are handed over: their delivery says how much each
// program takes before it answers (ours 64 KiB, redis and JetStream 4,096 records, the
// others what their sockets hold), and is to be compared with no other one's. Delivery
// is of all consumers together, for the records that were produced in the window. One
// that has not come within Grace after it counts as having taken that long, and among
// missing.
//
// # Columns, and keys of JSON
//
// MB is 1e6 bytes. Processor time is that of all threads of a process, by the
// kernel's clock of it; what a packet over the loopback takes is its sender's. Keys
// are an interface.
//
//	command, environment     what was run where, on which commit
//	settings                 seconds (of a window), warm_up_seconds, grace_seconds, rounds, processes
//	rows                     each cell, its figures medians of the rounds'; least and most have those of the rounds
//	  program, workload, shards, consumers, poll_ms
//	  produced_mbps, late_ms                  by the producer, and the most by which a record was late for the workload's schedule
//	  delivered_mbps, share, missing          in the window to all consumers; of what they were to get; of the records, not within the grace
//	  p50_ms, p99_ms, max_ms
//	  server_cpu_ms_per_s, server_cpu_ms_per_mb, server_cpu_beyond_ms_per_mb
//	                                          beyond: less what the server uses for the same producer without consumers
//	  producer_cpu_ms_per_s, client_cpu_ms_per_mb
//	  moved_per_byte, requests_per_kb         of the consumers, for each delivered byte and 1,000 of them: of peers and plain what went through
//	                                          their sockets, both ways; of ours what was read of the arena, below 1 where Readers of a process
//	                                          share a read
//	  durable_share                           of ours: from the store instead of the memory
//	  traffic                                 of the window: moved, requests, pages (reads of length pages), data (reads of data), durable
//	  failed, failures                        why a cell could not be measured, and in how many rounds
//	absent                   programs that are not there: program, why
//	floors                   of a chunk of 4 KiB, in this process: what, usec, least_usec, most_usec
//	claims                   what must hold of five rounds or more: claim, measured (median, least, most), holds
//	rounds                   rows of every round
package fanout
