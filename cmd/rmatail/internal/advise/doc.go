// Package advise answers, from what appenders have measured, whether producers
// need a queue before their sink, and how large. It asks the four questions of the
// experiment in bench/sink:
//
//  1. How bursty are arrivals? Peak by mean; above 3 they need a queue.
//  2. How uneven is the sink? p99 by p50 of a write; above 5 a queue, since a
//     caller that writes itself waits as long.
//  3. What does a lost record cost? It decides what happens when the queue is full.
//  4. What capacity is needed? Peak arrivals in the time that the queue takes to drain.
//
// If neither threshold is passed, and the sink's connections can write the
// peak one record at a time with a third of their time to spare, direct writes
// behind a semaphore do: they are the simplest, and had the best latency of all.
//
// Otherwise it is a queue, with batches: without them a queue only delays. The
// batch is what makes the sink twice as fast as the peak, 64 at least, as
// a batch does not wait for being full. A queue is no longer than what the sink
// writes within the latency that is allowed: in the experiment a queue of
// 65,536 was no faster than one of 256, and 50 times as late.
package advise
