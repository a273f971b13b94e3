package trace

import "errors"

var (
	// ErrFormat is returned when a file is neither pcap nor pcapng, or broken.
	ErrFormat = errors.New("capture file")
	// ErrPermission is returned when this process may not capture from netdevs.
	ErrPermission = errors.New("no permission to capture packets: run as root, or give the program the capability (setcap cap_net_raw+ep)")
	// ErrNetdev is returned when there is no such netdev, or it is down.
	ErrNetdev = errors.New("netdev to capture from")
	// ErrUnsupported is returned when this system has no live capture. Files work
	// everywhere.
	ErrUnsupported = errors.New("live capture needs Linux: capture with tcpdump -w FILE 'udp port 4791', and trace the file")
)
