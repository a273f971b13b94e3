// Package follow reads a file that another program appends to, and that is
// rotated, from its beginning and without an end.
//
// A Follower gives events: a file begins, bytes of it, it ends. Between Begin
// and End the bytes are those of one file from offset 0 on, without a gap and
// without a repetition.
//
// # What is the same file
//
// The open file is the file, whatever names it has: an inode cannot be used again
// while it is open. When it is not open (before a start, after ESTALE), and when
// a file was written anew in place, two things decide: device and inode, and the
// bytes just before the offset that were read last ([Mark.Tail], up to 1 KiB).
// Neither is enough alone: inodes are used again, and two files may begin alike.
//
// # Rotation
//
//   - Renamed or removed: the path leads to another file. The old one is read to
//     its end, and goes on being read until nothing has come for
//     Config.RotateWait, since programs write to it until they reopen their log.
//     What they write to it later is not seen. Then the new one begins. While the
//     path leads nowhere the old one is read.
//   - Copied and truncated: the file is shorter than the offset, or the bytes
//     before the offset are others. What was not read yet lies in the copy, which
//     is looked for beside the file, by the bytes before the offset, and read to
//     its end. Then the file begins again at 0. What the program wrote after the
//     copy was made and before the truncation is lost by this kind of rotation.
//   - A file that is rotated away twice within one poll, or while nobody follows,
//     is not seen if there is another one in between; only the one that was being
//     read is found under its new name.
//
// # Polling
//
// The caller polls: a stat of the path and one of the open file, both of which
// work on every file system. Notifications (inotify) do not come on network file
// systems, are dropped when too many, and are about names or inodes, while the
// question is what the two have to do with each other; so a poll would be
// needed in any case.
package follow
