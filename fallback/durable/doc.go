// Package durable keeps shards as append-only files in a directory, and reads
// them back, here or through a node. The files are the truth of rmatail: what
// an Append acknowledged is found again after a crash, and a position, once
// readable, never holds another byte.
//
// # Files
//
//	DIR/lock                                                          one node (see Dir.Own)
//	DIR/<stream>/<NNNN>/                                              one shard
//	    20261130T150203.123456789Z-00000000000000000000.log           segment
//	    20261130T160203.000000001Z-00000000000268435456.log           segment
//	    shard                                                         identity
//	    length                                                        mark
//	    segments                                                      index
//	    lock                                                          one writer
//
// Segment files hold content and nothing else: concatenated in name order they
// are the shard, so that cat, grep and rm work on them. The name is the UTC
// creation time and the base position, 20 digits. A new segment is never named
// before its predecessor, even when the clock steps back. The newest segment is
// the active one; it rolls over by size or age, at a border between appends.
// Dir.Retain removes the oldest ones by age and size, and anybody may by hand, at
// any time, from the oldest on; the first kept position is the base of the oldest
// file that is left. Files with other names are ignored.
//
// shard is text: a version, the incarnation (random, drawn when the shard is
// created) and a CRC. It is only ever replaced by rename.
//
// # The mark
//
// length is 1,024 bytes with two slots, at 0 and 512. Slots are written in turn,
// so that a torn write leaves the other one whole; the valid slot with the
// higher sequence counts. All numbers are little-endian.
//
//	 0  u32  magic "rmLM"
//	 4  u16  version, 1
//	 6  u16  flags: 1 sealed, 2 lazy, 4 failed
//	 8  u64  sequence
//	16  u64  incarnation
//	24  u64  boot: hash of the kernel's boot id, 0 unknown
//	32  u64  length: bytes below it are readable
//	40  u64  synced: bytes below it were flushed by fdatasync; <= length
//	48  u32  pending: size of the group at [length, length+pending), 0 none
//	52  u32  CRC32C of the pending group
//	56  u32  CRC32C of bytes 0..56
//	60  u32  zero
//
// Other processes learn from the mark alone what they may read: one pread and
// one stat of the shard's directory. They never read past it, whatever the size
// of the segment is.
//
// # The index
//
// segments is text, a line of 61 bytes for each segment, in order: its name, a
// space, the CRC32C of the name in 8 hex digits, a newline. So the line behind a
// sealed segment's names its successor: a reader that follows lists the directory
// once, and then, when the directory has changed, reads the lines behind the last
// segment that it knows, and looks which of the oldest are still there.
//
// The index is an aid, and decides nothing. The writer adds a line before it makes
// the file, without a flush, and makes the index anew when it does not end with
// the segments that are there: after a crash, or when an older writer has kept
// none. Lines of removed segments stay for a while. A reader to whom it does not
// tell (no index, a torn line, its segment not in it), or who finds a segment
// missing or shorter than the next one's base says, lists the directory.
//
// # Appending
//
// Appends that arrive while a flush is under way wait together, and become one
// group: one write, one flush. A group lies in one segment and has at most
// 4 MiB. With [Always]:
//
//  1. the slot {length, pending, CRC} is written, and its flush started
//  2. the group is written to the segment, then fdatasync
//  3. both flushes are waited for
//  4. the slot {length+pending, 0} is written (not flushed: see below)
//  5. the callers return
//
// With [Interval] and [Never] the group is written, step 4 is done, the callers
// return, and the flush comes later: within Options.Interval, or only at roll-over,
// Seal and Close (and when the kernel gets to it). "Readable" then means "handed to the
// kernel": a killed process loses nothing, a power failure loses what was not
// flushed. The lazy flag, flushed before the first such append, tells.
//
// # Recovery
//
// Opening a shard for append decides by {identity, mark, segment names and
// sizes}; see decide. Segments must follow each other without gap or overlap:
// anything else is a [CorruptError], and nothing is changed.
//
// Shards written with Always. All below length was flushed before any slot said
// so. Of what lies beyond, at most one group was under way:
//   - if it is there as a whole and its CRC fits, it is kept. It may have been
//     acknowledged, since slot 4 is not flushed. It is written once more before
//     it is flushed: after a failed fdatasync the kernel may hold pages that are
//     marked clean and never reached the disk.
//   - else it was never acknowledged nor readable, and is cut off. A part of an
//     append is therefore never published, after a killed process or a power
//     failure.
//   - more than one group beyond the mark cannot come from a crash: the mark is
//     old (a copied or restored directory). Nothing is cut then.
//
// Shards written with Interval or Never, when the lazy flag is set. In the same
// boot the kernel still has every byte below length, and what lies beyond is cut
// off. In another boot, or when the file ends before length, readable bytes may
// be gone, and the last append may be there in part: all that is in the files is
// kept, and a new incarnation is drawn, so that readers take it for another
// shard and no position of the old one is used twice. Until then readers see the
// bytes below synced. The same holds after a failed flush (flag failed), but
// there everything past synced is cut off.
//
// A missing or unreadable mark, or an identity that does not belong to the mark:
// all that is in the files is kept; a new incarnation in the second case. A
// missing identity is made again from the mark; without a mark, a new one is
// drawn. Segments that are all gone do not lower the length.
//
// # Errors
//
// A full disk takes the group back, fails every waiting append with wire.ErrFull,
// and later appends work again. A failed fdatasync is final: the kernel forgets
// the error (and perhaps the pages) once it was reported, so that a second try
// proves nothing. The log then refuses everything with [ErrFailed]; opening it
// again recovers.
//
// # Limits of the promise
//
// One writer per shard is held by flock(2) on the lock file, among the processes
// of one host, and of several hosts where the file system carries it. A file
// system on which a flush does not reach the disk voids the rest.
package durable
