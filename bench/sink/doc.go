// Package sink is the experiment that decides how producers write: 50,000 records,
// made as fast as a loop can, go into one slow sink.
//
// The sink has four connections. A write takes one of them for 200 us, one write
// in a hundred for 5 ms, whatever the number of records in it. GOMAXPROCS is 2.
// The rows differ in what stands between the loop and the sink:
//
//	direct     a goroutine for each record
//	semaphore  the same, at most four at a time: the loop waits
//	queue      a queue and four writers; a record that finds it full is dropped
//	blocking   the same, but the loop waits for room
//	appender   one producer.Appender with its defaults, and a shard for each connection
//
// Cap is the room of the queue in records, batch the most that a writer takes
// for one write, without waiting for more.
//
// # Waits
//
// The published experiment simulates the sink with time.Sleep (wait "sleep").
// That is no 200 us: when nothing else runs, Go waits for its timers in
// epoll_wait(2), which knows milliseconds, and rounds up (golang/go#53824); a
// write takes about 1.2 ms. Wait "exact" differs in that alone: the goroutine is
// parked as it is by time.Sleep, or by a socket, until a timerfd(2) of the
// connection says that 200 us are over.
//
// Wait "held" takes the same time in a system call, as the flush of a file does:
// clock_nanosleep(2) until the moment itself, with a timer slack of 1 ns (prctl(2),
// PR_SET_TIMERSLACK, else 50 us). This measures the Go runtime more than the queue.
// A system call keeps one of the 2 processors until the runtime's monitor takes it
// away. That looks every 20 us while it finds something, but every 10 ms after it has
// found nothing for some milliseconds, and then most system calls of 200 us are over
// before they are seen twice: the goroutines beyond the second are ready to write and
// do not run, and half of the connections are idle. The long queue escapes that with
// its one burst, after which nobody but the writers has to run; whatever waits for
// room, or for Acks, comes between. How package producer keeps the loss small is told
// in its steady.go.
//
// What a write really took is in Row.Sink; on a busy host it is longer. Elsewhere
// than on Linux there is no better clock than time.Sleep.
//
// Wait "store" is the real sink: four shards of a durable store, each write one
// append, flushed to the disk (policy always).
//
// # Numbers
//
// Produced records were taken, dropped ones were not: together they are all that
// were offered. RecordsPerSecond is written records by the time until the last
// one is written. (The published table divides by the time in which records
// were offered, so that a row is the faster the more it drops.) Latencies are
// exact quantiles, each record's time from before it is offered until its write
// has returned (with the appender: until its Ack has resolved), or until it was
// taken. Heap, stacks and goroutines are the most that was seen, asked for every
// 2 ms, in the whole process: what was there before the row, the store's own
// goroutines among it, is told apart.
package sink
