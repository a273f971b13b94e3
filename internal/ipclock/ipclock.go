// Package ipclock runs calls that lock memory with the capability that lets them pass RLIMIT_MEMLOCK, if the process may use it but does
// not do so by itself.
//
// That is the case of a container of an ordinary user: runtimes give capabilities to root alone, and leave the limit low (8 MiB, from
// systemd), so that a program of another user that is to lock memory has the capability in its file (setcap cap_ipc_lock=p). Permitted
// there, and not effective, it does not keep the program from starting where the container was not granted it; but then the
// program must make it effective itself, which this package does, for one thread and one call. Root, a systemd unit with
// AmbientCapabilities=CAP_IPC_LOCK and a process without the capability run the call as it is.
package ipclock
