// Package service is the experiment about what logging costs a service: reads of
// 4 KiB, served over TCP from an arena, while the handler of each read logs 0, 1
// or 5,500 lines, as text or JSON, at once or through a bounded queue.
//
// The service is a small one of its own: frames of package wire, a
// chunkstore.Arena, a goroutine a connection. A node's server has no lines to log
// per read, and gets no hooks for a benchmark. It is measured in the last
// two phases: as it is, once without a logger and once with that of
// 'rmatail serve'.
//
// Clients run in the same process and have one read under way each. A phase is
// warmed up, then measured for Config.For. Lines go to a file, which is removed
// after its phase.
//
// # Where the time goes
//
// Three measures say it. LogShare is the part of the handlers' own time that they
// spend in logging calls, by the clock: on a busy processor it includes waiting
// for it. Waits are from the profiles of blocking and of mutex contention, by
// what was waited for; waits of clients for replies are left out, as they are the
// load. Processors is user and system time of the process.
package service
