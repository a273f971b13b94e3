package chunkstore

import "errors"

// Errors of New.
var (
	// ErrConfig is returned when a setting is out of its bounds.
	ErrConfig = errors.New("bad arena setting")
	// ErrMemory is returned when the operating system does not give the memory or
	// does not seal it.
	ErrMemory = errors.New("no memory for the arena")
	// ErrHugePages is returned when huge pages were asked for and too few are
	// reserved. The message names the setting to change.
	ErrHugePages = errors.New("no huge pages for the arena")
	// ErrMemlock is returned when locking was asked for and RLIMIT_MEMLOCK does
	// not allow it. The message names the ways to raise it.
	ErrMemlock = errors.New("arena cannot be locked in memory")
	// ErrUnsupported is returned when this platform has no sealed memory files:
	// such an arena serves over TCP only.
	ErrUnsupported = errors.New("not supported on this platform")
)

// Errors of Put and Publish.
var (
	// ErrPrefix is returned when a put continues a prefix that the node does not
	// hold, or holds with other bytes: send the chunk from its start.
	ErrPrefix = errors.New("chunk prefix is not here")
	// ErrBadPut is returned when the sizes of a put are out of bounds, or its CRC
	// is not that of its own bytes. Sending it again does not help.
	ErrBadPut = errors.New("bad put")
	// ErrBadPublication is returned when a publication has no incarnation, a shard
	// with a bad name, or would move the end of a sealed shard.
	ErrBadPublication = errors.New("bad publication")
	// ErrLease is returned when a publication's ballot is below the held one, or
	// zero while somebody holds the shard's lease.
	ErrLease = errors.New("another writer holds the lease")
	// ErrClosed is returned when the arena has been closed.
	ErrClosed = errors.New("arena is closed")
)
