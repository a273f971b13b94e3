// Package rmatail is the root of a module that delivers ordered, append-only
// byte streams to many consumers by one-sided reads of a replicated in-memory
// cache, with durable files as the truth.
//
// Programs import reader (to follow streams) and producer (to append to them);
// cmd/rmatail is the command. This package holds no code: its tests hold the
// module's import graph to its rules and compile the examples of README.md.
package rmatail
