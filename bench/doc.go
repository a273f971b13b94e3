// Package bench has what all benchmarks of rmatail share: the description of
// the machine that goes with every number, quantiles, and claims that results are
// held to.
//
// Benchmarks measure the product and are no part of it: only the command
// imports them. Package bench/child runs the processes that they need. The experiments are packages below this one:
//
//	bench/read     reads over shared memory, RDMA and TCP, next to the floor of each; bench/verbs_floor is that of RDMA, in C
//	bench/fanout   one producer and many consumers, next to redis, JetStream, nginx and memcached; bench/peers has what of these is to be built
//	bench/sink     50,000 records into one slow sink, by a goroutine each, by queues, by our Appender
//	bench/scale    the published experiment with thousands of consumers, in virtual time
//	bench/service  what logging costs a service that answers reads
package bench
