// Package logging is how a node logs without being slowed down by it.
//
//	caller ── slog ── level ── limit ── format ── queue ┊ goroutine ── output
//
// The caller's part ends with a copy into memory. A log that the output does
// not take in time is dropped, never waited for: a terminal that is stopped, a
// pipe that nobody reads or a full disk must not stop a node.
//
//   - The level can be changed at any time (Logs.Level).
//   - A message that comes more often than Config.PerMessage times in
//     Config.Every is held back from then on, until the time is over. Messages
//     are told apart by their text and level, not by their attributes.
//     Debugging is never held back: whoever switches it on wants to see it.
//   - The queue is bounded in bytes. What finds it full is dropped.
//   - What was held back or dropped is counted, and the counts are logged every
//     Config.Every: "held back" with the message, "log lines dropped".
//
// Asynchronous does not mean free: formatting stays with the caller, about 1 us
// a line, and 5,500 lines a request cost nearly all of a service's throughput
// however they are written (rmatail bench logging). So nothing is logged per
// request above debug, and a call on a hot path is guarded by
// Logger.Enabled, since a disabled call with attributes still boxes them.
//
// What is still in the queue when the process is killed, or panics, is lost; the
// goroutine takes lines out as soon as the output takes them.
package logging
