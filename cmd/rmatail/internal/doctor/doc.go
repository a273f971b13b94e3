// Package doctor finds out what keeps a host from delivering over RDMA, and says
// how to mend it.
//
// A check is a pure function of a Host: the file tree of the machine (what it
// needs of /sys, /proc, /dev, /etc, /boot and the library directories), and a few
// facts that are in no file: netdevs with their addresses, what libibverbs says
// of each device, the rules of the firewall, whether the clock is synchronised.
// This one's Host is made by Here; tests make theirs.
//
// A Finding has a verdict, the fact that was found, and commands that mend it:
//
//	ok       nothing to do
//	unknown  this process may not see it, or this system does not say; the fix shows how to look
//	warn     it works, but slower, or not in every case
//	fail     RDMA does not work because of it
//
// Nothing is changed: a device is opened, a little memory registered and
// released again, and that is all.
//
// A Peer is then tried over each transport in turn, the way a reader does it,
// with what the link should give beside what it gave.
package doctor
