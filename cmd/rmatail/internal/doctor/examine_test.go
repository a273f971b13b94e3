package doctor

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// want is one finding that an examination must have: a verdict, a part of what
// was found, and a part of a command that mends it.
type want struct {
	check, on string
	verdict   Verdict
	found     string
	fix       string
}

// TestMachines examines machines of the shapes that users have reported. The ids
// are those of docs/doctor.md.
func TestMachines(t *testing.T) {
	for _, c := range machines() {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, c.file, c.changes...)
			r := Examine(m.host)
			for _, w := range c.wants {
				if !has(r, w) {
					t.Errorf("no finding %+v", w)
				}
			}
			if r.Verdict != c.verdict || r.RDMA != c.rdma {
				t.Errorf("verdict %v, RDMA %v; want %v, %v", r.Verdict, r.RDMA, c.verdict, c.rdma)
			}
			for _, f := range r.Findings {
				if f.Verdict != OK && len(f.Fix) == 0 {
					t.Errorf("%s %s: %v without a command that mends it: %s", f.Check, f.On, f.Verdict, f.Found)
				}
			}
			if t.Failed() {
				var b strings.Builder
				_ = r.WriteText(&b, All)
				t.Log("\n" + b.String())
			}
		})
	}
}

// machineCase is a machine, and what is to be found out about it.
type machineCase struct {
	name    string
	file    string
	changes []string
	verdict Verdict
	rdma    bool
	wants   []want
}

func machines() []machineCase {
	return []machineCase{
		{"no RDMA at all", "bare.txt", nil, Warn, false, []want{
			{"devices", "", Warn, "no RDMA device: this host reads over shared memory and TCP", ""},
			{"modules", "", Warn, "has no loadable modules", "boot a kernel"},
			{"library", "", OK, "rdma-core 44.0", ""}, {"memlock", "", OK, "", ""}, {"clock", "", OK, "tsc", ""}}},
		{"soft-RoCE, well", "rxe.txt", []string{"proc/sys/net/ipv4/conf/all/arp_ignore 1", "proc/sys/net/ipv4/conf/all/arp_announce 2"}, OK, true, []want{
			{"devices", "", OK, "2 of RoCE or InfiniBand: rxe0, rxe1", ""},
			{"gid", "rxe0 port 1", OK, "would use index 1, ::ffff:10.9.0.1 RoCE v2 on v0", ""},
			{"mtu", "rxe0 port 1", OK, "active MTU 4096, v0 has 9000", ""},
			{"counters", "rxe0 port 1", OK, "213463 packets, 1 lost or late", ""},
			{"firewall", "", OK, "lets UDP port 4791 pass", ""},
			{"register", "rxe0", OK, "1 MiB registered", ""}}},
		{"C108 two netdevs in a subnet", "rxe.txt", nil, Warn, true, []want{{"subnet", "v0", Warn, "v0 and v1 are both in 10.9.0.0/24", "arp_ignore=1"}}},
		{"C9 C10 C107 C138 hardware with v1 before v2, and a VLAN", "mlx5.txt", nil, OK, true, []want{
			{"gid", "mlx5_0 port 1", OK, "would use index 3, ::ffff:10.9.0.1 RoCE v2 on eth2", ""},
			{"mtu", "mlx5_0 port 1", OK, "active MTU 4096", ""},
			{"modules", "", OK, "(not needed: there is hardware)", ""},
			{"firewall", "", OK, "hardware does not pass", ""},
			{"pcie", "mlx5_0", OK, "PCIe x16 at 16.0 GT/s, NUMA node 1", ""},
			{"congestion", "mlx5_0 port 1", Unknown, "no sign of congestion", "dcb pfc show dev eth2"}}},
		{"C11 C152 a runner's useless device", "azure-runner.txt", nil, Fail, false, []want{
			{"gid", "mlx5_0 port 1", Fail, "counts as absent", ""},
			{"modules", "", Warn, "no module rdma_rxe", "linux-modules-extra-6.11.0-1018-azure"},
			{"modules", "", Warn, "", "no longer in the repository"}}},
		{"C14 IPv6 only", "bnxt-ipv6.txt", nil, OK, true, []want{{"gid", "bnxt_re0 port 1", OK, "would use index 3, fd00:1::7 RoCE v2 on ens1", ""}}},
		{"C15 holes in the table", "mlx5.txt", []string{"sys/class/infiniband/mlx5_0/ports/1/gids/0 !ENODATA", "sys/class/infiniband/mlx5_0/ports/1/gids/1 !EINVAL"}, OK, true, []want{
			{"gid", "mlx5_0 port 1", OK, "would use index 3", ""}}},
		{"C16 one device of two has no version 2", "mlx5.txt", []string{device("mlx5_1", "mlx5_core"), "@netdev eth3 7 1c:34:da:12:34:57 10.8.0.1/24", "@gid mlx5_1 1 0 v1 eth3 ::ffff:10.8.0.1", "sys/class/net/eth3/mtu 9000"}, Warn, true, []want{
			{"gid", "mlx5_0 port 1", OK, "RoCE v2", ""}, {"gid", "mlx5_1 port 1", Warn, "there is no RoCE v2 entry", "-m 2"}}},
		{"C12 C13 C128 link-local only", "rxe.txt", []string{"@gid rxe0 1 1 v2 v0 0000:0000:0000:0000:0000:0000:0000:0000"}, Warn, true, []want{
			{"gid", "rxe0 port 1", Warn, "link-local, so only peers on the same link", "ip addr add ADDRESS/PREFIX dev v0"}}},
		{"an empty table", "rxe.txt", []string{"@gid rxe0 1 0 v2 v0 0000:0000:0000:0000:0000:0000:0000:0000", "@gid rxe0 1 1 v2 v0 0000:0000:0000:0000:0000:0000:0000:0000", "@verbs rxe1 open=EACCES"}, Fail, false, []want{
			{"gid", "rxe0 port 1", Fail, "the table is empty", "ip addr add ADDRESS/PREFIX dev v0"}}},
		{"an index that was asked for", "rxe.txt", []string{"@gid rxe0 1 4 v2 v0 ::ffff:10.9.0.1"}, Warn, true, []want{{"gid", "rxe0 port 1", OK, "index 1", ""}}},
		{"C20 an address that is lent", "rxe.txt", []string{"@lifetime 10.9.0.1 12h"}, Warn, true, []want{{"address", "rxe0 port 1", Warn, "10.9.0.1 is lent to v0 (by DHCP, or a router) for 12h0m0s", "valid_lft forever"}}},
		{"C21 stale entries", "rxe.txt", []string{"@gid rxe0 1 3 v2 v0 fe80::ffff:32ff:fe1e:967"}, Warn, true, []want{{"gid", "rxe0 port 1", Warn, "1 entries name v0, which does not own them", "ip link set dev v0 down"}}},
		{"C74 no provider", "rxe.txt", []string{"-usr/lib/x86_64-linux-gnu/libibverbs", "@verbs rxe0 absent", "@verbs rxe1 absent"}, Fail, false, []want{
			{"provider", "rxe0", Fail, "its provider librxe is not installed", "apt-get install ibverbs-providers"}}},
		{"C75 C100 library and kernel of different age", "mlx5.txt", []string{"@verbs mlx5_0 absent"}, Fail, false, []want{
			{"provider", "mlx5_0", Fail, "do not agree with the kernel's interface (ABI 1 of kernel 6.1.0-57-amd64)", "ibv_devices"}}},
		{"C72 no library", "mlx5.txt", []string{"@library none", "etc/os-release ID=rhel"}, Fail, false, []want{{"library", "", Fail, "libibverbs.so.1 is not installed", "dnf install libibverbs"}}},
		{"no verbs in this build", "bare.txt", []string{"@library unsupported"}, Warn, false, []want{{"library", "", Warn, "built without verbs", "CGO_ENABLED=1"}}},
		{"C98 C79 C81 a pod: device cgroup, locked memory", "container.txt", nil, Fail, false, []want{
			{"access", "mlx5_0", Fail, "the container's device cgroup does not let it be opened", "device plugin"},
			{"memlock", "", Fail, "limit 8 MiB, below the 64 MiB that a node registers; the container was given CAP_IPC_LOCK, but only root in it gets that to work, and this is user 1000", "containerd.service.d"}}},
		{"C101 no device file", "container.txt", []string{"-dev", "@env KUBERNETES_SERVICE_HOST=", "proc/self/cgroup 0::/docker/3b1"}, Fail, false, []want{
			{"access", "mlx5_0", Fail, "/dev/infiniband/uverbs0 is missing", "docker run --device=/dev/infiniband/uverbs0"}}},
		{"ib_uverbs is not loaded", "mlx5.txt", []string{"-sys/class/infiniband_verbs", "-dev"}, Fail, false, []want{{"modules", "", Fail, "ib_uverbs", "modprobe ib_uverbs"}}},
		{"a user without permission", "mlx5.txt", []string{"@uid 1000", "@verbs mlx5_0 open=EACCES", "dev/infiniband/uverbs0 !device 0660"}, Fail, false, []want{
			{"access", "mlx5_0", Fail, "user 1000 may not open /dev/infiniband/uverbs0", "chmod 0666"}}},
		{"an exhausted rdma cgroup", "mlx5.txt", []string{"proc/self/cgroup 0::/box/in", "sys/fs/cgroup/box/rdma.max mlx5_0 hca_handle=2 hca_object=max", "sys/fs/cgroup/box/rdma.current mlx5_0 hca_handle=2 hca_object=11"}, Fail, false, []want{
			{"cgroup", "mlx5_0", Fail, "/sys/fs/cgroup/box allows 2 of hca_handle, 2 are in use", "echo 'mlx5_0 hca_handle=max' > /sys/fs/cgroup/box/rdma.max"}}},
		{"C103 C104 C105 the netdev is in another namespace", "mlx5.txt", []string{"@gid mlx5_0 1 0 v1 eth9 fe80::1", "@gid mlx5_0 1 1 v2 eth9 fe80::1", "@gid mlx5_0 1 2 v1 eth9 ::ffff:10.9.0.1", "@gid mlx5_0 1 3 v2 eth9 ::ffff:10.9.0.1",
			"@gid mlx5_0 1 6 v1 eth9 ::ffff:10.10.0.1", "@gid mlx5_0 1 7 v2 eth9 ::ffff:10.10.0.1", "proc/self/cgroup 0::/docker/3b1"}, Fail, false, []want{
			{"netns", "mlx5_0 port 1", Fail, "its netdev eth9 is not in this network namespace: queue pairs fail with ENODEV", "docker run --network=host"},
			{"netns", "mlx5_0 port 1", Fail, "", "ip link set dev eth9 netns"},
			{"gid", "mlx5_0 port 1", Fail, "none of 6 entries fits", "docker run --network=host"}}},
		{"C106 exclusive mode, no device here", "bare.txt", []string{"@mode exclusive"}, Warn, false, []want{{"devices", "", Warn, "devices may be in another network namespace", "rdma dev set DEVICE netns NAME"}}},
		{"C106 exclusive mode", "mlx5.txt", []string{"@mode exclusive"}, OK, true, []want{{"netns", "", OK, "Device plugins that share devices do not start in this mode", ""}}},
		{"C134 soft-RoCE in a network namespace", "rxe.txt", []string{"proc/self/ns/net -> net:[4026532999]"}, Warn, true, []want{{"netns", "rxe0 port 1", Warn, "soft-RoCE outside of the initial network namespace", "nsenter --net=/proc/1/ns/net"}}},
		{"C109 C110 InfiniBand: partition, MTU, no subnet manager", "infiniband.txt", nil, Fail, true, []want{
			{"port", "mlx5_0 port 1", OK, "ACTIVE, InfiniBand", ""}, {"pkey", "mlx5_0 port 1", Warn, "limited member of partition 0x7fff", "partitions.conf"},
			{"gid", "mlx5_0 port 1", OK, "would use index 0", ""}, {"mtu", "mlx5_0 port 1", Warn, "active MTU 2048: a chunk of 4 KiB takes 2 packets", "mtu=5"},
			{"port", "mlx5_0 port 2", Fail, "INIT, InfiniBand: no subnet manager", "opensm"}}},
		{"C109 unknown link layer", "mlx5.txt", []string{"sys/class/infiniband/mlx5_0/ports/1/link_layer Unknown"}, Warn, true, []want{{"port", "mlx5_0 port 1", Warn, "it is not known what the port is plugged into", "cat /sys/class/infiniband/mlx5_0/ports/1/link_layer"}}},
		{"a link that is down", "mlx5.txt", []string{"sys/class/infiniband/mlx5_0/ports/1/state 1: DOWN", "sys/class/infiniband/mlx5_0/ports/1/phys_state 3: Disabled"}, Fail, false, []want{
			{"port", "mlx5_0 port 1", Fail, "DOWN, Ethernet, 100 Gb/sec (4X EDR), on eth2; the cable's state is Disabled", "ip link set dev eth2 up"}}},
		{"C5 C113 C114 C127 a small MTU", "mlx5.txt", []string{"@verbs mlx5_0 mtu=1024", "sys/class/net/eth2/mtu 1500"}, Warn, true, []want{{"mtu", "mlx5_0 port 1", Warn, "active MTU 1024, eth2 has 1500: a chunk of 4 KiB takes 4 packets", "ip link set dev eth2 mtu 9000"}}},
		{"an MTU that was not noticed", "mlx5.txt", []string{"@verbs mlx5_0 mtu=1024"}, Warn, true, []want{{"mtu", "mlx5_0 port 1", Warn, "eth2 has 9000, which would do for 4096: the port has not noticed", "down && ip link set dev eth2 up"}}},
		{"C76 C78 C80 locked memory of 64 KiB", "mlx5.txt", []string{"@uid 1000", "proc/self/limits Max locked memory         65536                65536                bytes", "proc/self/status CapEff:\t0000000000000000", "@verbs mlx5_0 register=ENOMEM"}, Fail, false, []want{
			{"memlock", "", Fail, "limit 64 KiB, below the 64 MiB that a node registers, and the 4 MiB of a reader's connection", "LimitMEMLOCK=infinity"},
			{"register", "mlx5_0", Fail, "RLIMIT_MEMLOCK is 64 KiB", "prlimit --memlock=unlimited"}}},
		{"locked memory that may be raised", "mlx5.txt", []string{"@uid 1000", "proc/self/limits Max locked memory         8388608              unlimited            bytes", "proc/self/status CapEff:\t0000000000000000"}, Fail, true, []want{{"memlock", "", Fail, "this user may raise it", "ulimit -l unlimited"}}},
		{"a capability in a user namespace", "mlx5.txt", []string{"proc/self/limits Max locked memory         65536                65536                bytes", "proc/self/uid_map 0 100000 65536"}, Fail, true, []want{{"memlock", "", Fail, "CAP_IPC_LOCK does not help in a user namespace", ""}}},
		{"a large arena", "mlx5.txt", []string{"@arena 17179869184", "proc/self/limits Max locked memory         8388608              8388608              bytes", "proc/self/status CapEff:\t0000000000000000"}, Fail, true, []want{{"memlock", "", Fail, "below the 16 GiB that a node registers", ""}}},
		{"C77 not even a completion queue", "mlx5.txt", []string{"@verbs mlx5_0 cq=ENOMEM", "proc/self/limits Max locked memory         65536                65536                bytes", "proc/self/status CapEff:\t0000000000000000"}, Fail, false, []want{{"register", "mlx5_0", Fail, "a completion queue: ", "prlimit"}}},
		{"C82 C83 the device has no keys left", "mlx5.txt", []string{"@verbs mlx5_0 register=ENOMEM"}, Fail, false, []want{{"register", "mlx5_0", Fail, "the device has no room for more keys", "rdma resource show"}, {"register", "mlx5_0", Fail, "", "devlink dev reload pci/0000:41:00.0"}}},
		{"C83 try again", "mlx5.txt", []string{"@verbs mlx5_0 register=EAGAIN"}, Fail, false, []want{{"register", "mlx5_0", Fail, "left by killed ones", ""}}},
		{"C82 an arena above the device's limit", "mlx5.txt", []string{"@verbs mlx5_0 maxmr=1048576"}, Fail, false, []want{{"register", "mlx5_0", Fail, "at most 1 MiB at once, the arena has 64 MiB", "rmatail serve --arena 1048576"}}},
		{"C82 C129 nearly all queue pairs are in use", "mlx5.txt", []string{"@verbs mlx5_0 maxqp=100", "@resources mlx5_0 qp=95 mr=2 ctx=3"}, Warn, true, []want{{"resources", "mlx5_0", Warn, "95 queue pairs, 2 memory regions, opened 3 times (whoever removes the device waits for those), of 100", "rdma resource show qp"}}},
		{"C129 who has a device open", "mlx5.txt", []string{"@resources mlx5_0 qp=1 mr=0 ctx=1"}, OK, true, []want{{"resources", "mlx5_0", OK, "opened 1 times", ""}}},
		{"C85 huge pages that do not do", "rxe.txt", []string{`proc/meminfo HugePages_Total:       10\nHugePages_Free:        8\nHugePages_Rsvd:        3\nHugepagesize:       2048 kB`}, Warn, true, []want{{"hugepages", "", Warn, "5 of 10 pages of 2 MiB are free, serve --huge-pages needs 32", "sysctl -w vm.nr_hugepages=37"}}},
		{"huge pages enough", "rxe.txt", []string{`proc/meminfo HugePages_Total:       40\nHugePages_Free:        40\nHugePages_Rsvd:        0\nHugepagesize:       2048 kB`}, Warn, true, []want{{"hugepages", "", OK, "40 of 2 MiB are free, 32 are needed", ""}}},
		{"C86 C87 C88 fork-safe", "rxe.txt", []string{"@env RDMAV_FORK_SAFE=1"}, Warn, true, []want{{"fork", "", Warn, "RDMAV_FORK_SAFE is set: registering memory is slow, for nothing, as rmatail does not fork; with huge pages it fails", "unset"}}},
		{"C115 a firewall", "rxe.txt", []string{`@iptables *filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT`}, Fail, false, []want{
			{"firewall", "", Fail, "drops RoCE packets (UDP port 4791, input): policy drop of chain INPUT in table filter", "iptables -t filter -I INPUT -p udp --dport 4791 -j ACCEPT"}}},
		{"C115 hardware does not care", "mlx5.txt", []string{`@iptables *filter\n:INPUT DROP [0:0]\nCOMMIT`}, OK, true, []want{{"firewall", "", OK, "", ""}}},
		{"C121 6.17", "rxe.txt", []string{"proc/sys/kernel/osrelease 6.17.0-5-generic"}, Warn, true, []want{{"rxe", "rxe0", Warn, "lost completions of two-sided transfers", ""}}},
		{"C122 5.4", "rxe.txt", []string{"proc/sys/kernel/osrelease 5.4.0-113-generic"}, Warn, true, []want{{"rxe", "rxe0", Warn, "endless retries", ""}}},
		{"C123 C131 5.14", "rxe.txt", []string{"proc/sys/kernel/osrelease 5.14.20-300.fc35.x86_64"}, Warn, true, []want{{"rxe", "rxe0", Warn, "soft lockups", ""}}},
		{"C124 5.10", "rxe.txt", []string{"proc/sys/kernel/osrelease 5.10.0-30-amd64"}, Warn, true, []want{{"rxe", "rxe0", Warn, "local protection errors", ""}}},
		{"C127 RHEL 7", "rxe.txt", []string{"proc/sys/kernel/osrelease 3.10.0-693.el7.x86_64"}, Warn, true, []want{{"rxe", "rxe0", Warn, "more than 1,024 bytes", ""}, {"kernel", "", Warn, "cannot seal", ""}}},
		{"C132 iWARP", "linux.txt", []string{"sys/class/infiniband/siw0/node_type 4: RNIC", "sys/class/infiniband/siw0/ports/1/state 4: ACTIVE", "sys/class/infiniband_verbs/uverbs0/ibdev siw0"}, Warn, false, []want{{"devices", "siw0", Warn, "iWARP, which is not supported", ""}}},
		{"C133 C143 soft-RoCE on the loopback", "linux.txt", []string{device("rxe0", "", "sys/class/infiniband/rxe0/parent lo", "sys/class/net/lo/mtu 65536"), "@gid rxe0 1 0 v2 lo ::1", "@gid rxe0 1 1 v2 lo ::ffff:127.0.0.1", "sys/module/rdma_rxe/initstate live", "@netdev eth0 2 02:fc:00:00:00:01 172.16.0.2/24"}, Warn, true, []want{
			{"rxe", "rxe0", Warn, "it reaches this host alone", "rdma link add rxe1 type rxe netdev eth0"}, {"gid", "rxe0 port 1", OK, "on lo", ""}, {"mtu", "rxe0 port 1", OK, "lo has 65536", ""}}},
		{"C136 no command to make soft-RoCE with", "bare.txt", []string{"proc/sys/kernel/osrelease 6.1.0-57-amd64", `lib/modules/6.1.0-57-amd64/modules.dep kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: x\nkernel/crypto/crc32_generic.ko:`, "-usr/sbin/rdma"}, Warn, false, []want{
			{"devices", "", Warn, "no RDMA device", "rdma link add rxe0 type rxe netdev eth0"}, {"devices", "", Warn, "", "modprobe crc32_generic"},
			{"modules", "", OK, "rdma_rxe is not loaded, and can be", "modprobe rdma_rxe"}, {"modules", "", Warn, "the command rdma is not installed", "apt-get install iproute2"}}},
		{"C139 a cloud kernel", "bare.txt", []string{"proc/sys/kernel/osrelease 6.1.0-57-cloud-amd64", `boot/config-6.1.0-57-cloud-amd64 CONFIG_MODULES=y\n# CONFIG_RDMA_RXE is not set`, "lib/modules/6.1.0-57-cloud-amd64/modules.dep x"}, Warn, false, []want{
			{"modules", "", Warn, "was built without rdma_rxe", "apt-get install linux-image-amd64"}}},
		{"modules are locked", "bare.txt", []string{"proc/sys/kernel/osrelease 6.1.0-57-amd64", "lib/modules/6.1.0-57-amd64/modules.dep kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: x", "proc/sys/kernel/modules_disabled 1"}, Warn, false, []want{{"modules", "", Warn, "loading modules was disabled", "reboot"}}},
		{"modules are the host's", "bare.txt", []string{"proc/sys/kernel/osrelease 6.1.0-57-amd64", ".dockerenv x"}, Warn, false, []want{{"modules", "", Warn, "load them on the host", "on the host"}}},
		{"C141 C142 a card without its driver", "bare.txt", []string{"sys/bus/pci/devices/0000:41:00.0/class 0x020000", "sys/bus/pci/devices/0000:41:00.0/driver -> ../../../bus/pci/drivers/mlx5_core"}, Warn, false, []want{{"devices", "", Warn, "the kernel's module mlx5_ib, which makes it an RDMA device, is not loaded", "modprobe mlx5_ib"}}},
		{"loss, and no ECN", "mlx5.txt", []string{"sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence 90000"}, Warn, true, []want{
			{"counters", "mlx5_0 port 1", Warn, "90000 of 180000000 packets were lost or late", "ethtool -S eth2"}, {"congestion", "mlx5_0 port 1", Warn, "neither PFC nor ECN seems to be set up", "dcb pfc show dev eth2"}}},
		{"ECN works", "mlx5.txt", []string{"sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent 5"}, OK, true, []want{{"congestion", "mlx5_0 port 1", OK, "ECN works", ""}}},
		{"ECN is off", "mlx5.txt", []string{"sys/class/net/eth2/ecn/roce_np/enable/3 0", "sys/class/net/eth2/ecn/roce_rp/enable/3 0"}, Warn, true, []want{{"congestion", "mlx5_0 port 1", Warn, "ECN is off for all priorities", "echo 1"}}},
		{"a slow slot", "mlx5.txt", []string{"sys/devices/pci0/0000:41:00.0/current_link_width 8"}, Warn, true, []want{{"pcie", "mlx5_0", Warn, "PCIe x8 at 16.0 GT/s, NUMA node 1, the card can x16", "lspci -vv -s 0000:41:00.0"}}},
		{"a slow clock", "bare.txt", []string{"sys/devices/system/clocksource/clocksource0/current_clocksource hpet", "@clock unsynced"}, Warn, false, []want{
			{"clock", "", Warn, "clock source hpet: reading the time costs microseconds", "echo tsc"}, {"clock", "", Warn, "not synchronised", "timedatectl"}}},
		{"one device is asked for", "mlx5.txt", []string{device("mlx5_1", "mlx5_core", "sys/class/infiniband/mlx5_1/ports/1/state 1: DOWN")}, Fail, true, []want{{"port", "mlx5_1 port 1", Fail, "DOWN", ""}}},
	}
}

func has(r Report, w want) bool {
	for _, f := range r.Findings {
		if f.Check == w.check && f.On == w.on && f.Verdict == w.verdict && strings.Contains(f.Found, w.found) && strings.Contains(strings.Join(f.Fix, "\n"), w.fix) {
			return true
		}
	}
	return false
}

// The GID that would be used, and why each other one is not.
func TestGIDReasons(t *testing.T) {
	r := Examine(newMachine(t, "mlx5.txt").host)
	var got []string
	for _, f := range r.Findings {
		if f.Check == "gid" {
			got = append(got, f.Details...)
		}
	}
	want := []string{
		"- port 1 gid 0 fe80::1e34:daff:fe12:3456 RoCE v1 on eth2: index 3 instead: RoCE v2 goes before v1",
		"- port 1 gid 1 fe80::1e34:daff:fe12:3456 RoCE v2 on eth2: index 3 instead: its scope fits the peer less",
		"- port 1 gid 2 ::ffff:10.9.0.1 RoCE v1 on eth2: index 3 instead: RoCE v2 goes before v1",
		"* port 1 gid 3 ::ffff:10.9.0.1 RoCE v2 on eth2: chosen",
		"- port 1 gid 6 ::ffff:10.10.0.1 RoCE v1 on eth2.10 (VLAN 10 of eth2): index 3 instead: RoCE v2 goes before v1",
		"- port 1 gid 7 ::ffff:10.10.0.1 RoCE v2 on eth2.10 (VLAN 10 of eth2): index 3 instead: as good, but not the first",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is asked for is judged, not what would be chosen.
func TestAskedFor(t *testing.T) {
	m := newMachine(t, "mlx5.txt", device("mlx5_1", "mlx5_core", "sys/class/infiniband/mlx5_1/ports/1/state 1: DOWN"))
	m.host.Want.Device, m.host.Want.GIDIndex = "mlx5_0", 1
	r := Examine(m.host)
	if !has(r, want{"gid", "mlx5_0 port 1", Warn, "index 1, fe80::1e34:daff:fe12:3456 RoCE v2 on eth2, for want of another: link-local", "ip addr add"}) || r.Verdict != Warn {
		t.Errorf("%+v", r)
	}
	m.host.Want.GIDIndex = 5
	if r := Examine(m.host); !has(r, want{"gid", "mlx5_0 port 1", Fail, "index 5, which was asked for, is empty", ""}) || r.RDMA {
		t.Errorf("%+v", r)
	}
	m.host.Want.Device = "mlx5_9"
	if r := Examine(m.host); !has(r, want{"devices", "mlx5_9", Fail, "there are: mlx5_0, mlx5_1", "rdma link show"}) {
		t.Errorf("%+v", r)
	}
	m = newMachine(t, "rxe.txt")
	m.host.NetnsModeErr = errNetlink
	if r := Examine(m.host); !has(r, want{"netns", "", Unknown, "operation not permitted", "rdma system show netns"}) {
		t.Errorf("%+v", r)
	}
	m.host.Firewall.Err = errNetlink
	if r := Examine(m.host); !has(r, want{"firewall", "", Unknown, "operation not permitted", "nft list ruleset"}) {
		t.Errorf("%+v", r)
	}
	m.host.Clock = Clock{}
	if r := Examine(m.host); !has(r, want{"clock", "", Unknown, "cannot be found out", "timedatectl"}) {
		t.Errorf("%+v", r)
	}
}

// A Host without anything in it: nothing is known, nothing panics.
func TestEmptyMachine(t *testing.T) {
	m := newMachine(t, "README.txt"[:0]+"linux.txt", "-proc", "-sys", "-usr", "-etc")
	r := Examine(m.host)
	if r.RDMA || r.Count(Fail) != 0 || r.Count(Unknown) == 0 {
		t.Errorf("%+v", r)
	}
}

// docs/doctor.md has every kind of check, and every case that is tested here; and a
// case for which it names TestMachines is one of those. That the other tests which it
// names exist is TestReportedCases' of the root package.
func TestTheDocumentIsWhole(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`\bC\d+\b`)
	var machineIDs []string
	for _, c := range machines() {
		machineIDs = append(machineIDs, id.FindAllString(c.name, -1)...)
	}
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "| C") || !strings.Contains(line, "TestMachines") {
			continue
		}
		for _, name := range id.FindAllString(strings.Split(line, "|")[1], -1) {
			if !slices.Contains(machineIDs, name) {
				t.Errorf("docs/doctor.md says that TestMachines tests %s, and no machine has its name", name)
			}
		}
	}
	for _, c := range machines() {
		for _, name := range id.FindAllString(c.name, -1) {
			if !regexp.MustCompile(`\b` + name + `\b`).Match(doc) {
				t.Errorf("%s is tested and not in docs/doctor.md", name)
			}
		}
		for _, f := range Examine(newMachine(t, c.file, c.changes...).host).Findings {
			if !strings.Contains(string(doc), "`"+f.Check+"`") {
				t.Errorf("check %s is not in docs/doctor.md", f.Check)
			}
		}
	}
}

// Keys and words are an interface.
func TestReportJSON(t *testing.T) {
	b, err := json.Marshal(Examine(newMachine(t, "rxe.txt").host))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"verdict":"warn","rdma":true,"findings":[{"check":"kernel","verdict":"ok","found":"Linux 6.1.0-57-amd64"},`,
		`{"check":"subnet","on":"v0","verdict":"warn","found":`, `"fix":["sysctl `, `"details":["- port 1 gid 0`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || back.Verdict != Warn || len(back.Findings) == 0 {
		t.Errorf("%+v, %v", back, err)
	}
	var v Verdict
	if err := v.UnmarshalText([]byte("bad")); err == nil {
		t.Error("a verdict that there is not")
	}
}

func TestReportText(t *testing.T) {
	r := Examine(newMachine(t, "rxe.txt", "@verbs rxe0 open=EACCES").host)
	var short, long strings.Builder
	if err := r.WriteText(&short, Needed); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteText(&long, All); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(short.String(), "\nwarn    subnet v0: v0 and v1 are both in 10.9.0.0/24") || !strings.Contains(short.String(), "\n        > sysctl -w net.ipv4") || strings.Contains(short.String(), "gid 0 fe80") || strings.Contains(short.String(), "nr_hugepages") {
		t.Errorf("%s", short.String())
	}
	if !strings.Contains(long.String(), "          - port 1 gid 0 fe80") || !strings.Contains(long.String(), "> sysctl -w vm.nr_hugepages=32") {
		t.Errorf("%s", long.String())
	}
	if !strings.HasSuffix(short.String(), "1 fail: RDMA works in part; see what failed\n") {
		t.Errorf("%s", short.String())
	}
}
