# shellcheck shell=bash
# Soft-RoCE devices: the topology that the rxe ring of the tests runs on. Sourced on the host and in the guest. Needs log.sh.
#
#   v0 10.9.0.1/24 rxe0 ----- veth, mtu 9000 ----- rxe1 10.9.0.2/24 v1
#
# Two devices in ONE network namespace: one device that talks to itself short-cuts its packets inside the driver (no capture,
# no loss, no link down), and the driver's socket and routes live in the initial namespace only, so namespaces of their own do not work.
# MTU 9000 gives an active MTU of 4096, that is one response packet for a 4,096-byte read.

rxe_net=10.9.0
# The mark by which --down knows links that are ours from links that merely have our names.
rxe_mark=rmatail-test

# rxe_of NETDEV: prints the RDMA device of rxe type on a netdev, empty if there is none.
rxe_of() {
	local d
	for d in /sys/class/infiniband/*; do
		[[ -r $d/parent && $(<"$d/parent") == "$1" ]] && printf '%s\n' "${d##*/}" && return
	done
	return 0
}

# rxe_gid_of ADDR: prints an IPv4 address as sysfs shows it in a GID table.
rxe_gid_of() {
	local IFS=. p
	read -ra p <<<"$1"
	printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' "${p[@]}"
}

# rxe_wait_gid DEV ADDR: until the IPv4 address is in the device's GID table. The kernel fills the table asynchronously,
# at an index that depends on what else the netdev has.
rxe_wait_gid() {
	local dev=$1 want end=$((SECONDS + 20))
	want=$(rxe_gid_of "$2")
	# Reading an empty slot fails with EINVAL, which -s keeps quiet and -q ignores once there is a match.
	until grep -qsx "$want" "/sys/class/infiniband/$dev/ports/1/gids/"*; do
		if ((SECONDS >= end)); then
			say "$dev shows no GID for $2 after 20 s"
			return 1
		fi
		sleep 0.05
	done
}

# rxe_add DEV NETDEV
rxe_add() {
	local out
	if ! out=$(rdma link add "$1" type rxe netdev "$2" 2>&1); then
		say "rdma link add $1 type rxe netdev $2: ${out:-no reason given}"
		[[ $out == *"No such file"* ]] && say "the kernel has no crc32 for the driver: modprobe crc32_generic"
		return 1
	fi
}

# rxe_pair_up: makes the test topology, or finishes one that is half there.
rxe_pair_up() {
	local i dev out
	if [[ ! -e /sys/class/net/v0 && ! -e /sys/class/net/v1 ]]; then
		out=$(ip -4 -o route show to match "$rxe_net.1" | grep -v ^default || true)
		if [[ -n $out ]]; then
			say "this host has a route for $rxe_net.0/24, which the test topology needs: $out"
			return 1
		fi
		ip link add v0 mtu 9000 type veth peer name v1 mtu 9000 || return 1
		ip link set v0 alias "$rxe_mark" && ip link set v1 alias "$rxe_mark" || return 1
	elif ! rxe_pair_ours; then
		say "v0 or v1 exist and are not a test topology of this script; name the netdevs to use instead: rxe-up NETDEV..."
		return 1
	fi
	for i in 0 1; do
		# Both addresses are this host's own: without accept_local each side drops the other's packets, ARP replies
		# first, and connecting fails with ETIMEDOUT. The stricter of a link's and the host's rp_filter counts, except that loose (2) beats
		# strict (1), so 2 works whatever the host's setting and nothing of the host has to change. Set while the link is still down.
		echo 1 >"/proc/sys/net/ipv4/conf/v$i/accept_local" || return 1
		echo 2 >"/proc/sys/net/ipv4/conf/v$i/rp_filter" || return 1
	done
	for i in 0 1; do
		ip addr replace "$rxe_net.$((i + 1))/24" dev "v$i" && ip link set "v$i" up || return 1
	done
	for i in 0 1; do
		dev=$(rxe_of "v$i")
		if [[ -z $dev ]]; then
			rxe_add "rxe$i" "v$i" || return 1
		elif [[ $dev != "rxe$i" ]]; then
			say "v$i carries $dev, expected rxe$i; remove it with: rdma link delete $dev"
			return 1
		fi
	done
	for i in 0 1; do
		rxe_wait_gid "rxe$i" "$rxe_net.$((i + 1))" || return 1
	done
}

# rxe_pair_ours: v0 and v1 are links made by rxe_pair_up.
rxe_pair_ours() {
	local i
	for i in 0 1; do
		[[ -r /sys/class/net/v$i/ifalias && $(<"/sys/class/net/v$i/ifalias") == "$rxe_mark" ]] || return 1
	done
}

# rxe_pair_ready: the topology is complete. Needs no root.
rxe_pair_ready() {
	rxe_pair_ours && [[ $(rxe_of v0) == rxe0 && $(rxe_of v1) == rxe1 ]] &&
		grep -qsx "$(rxe_gid_of "$rxe_net.1")" /sys/class/infiniband/rxe0/ports/1/gids/* &&
		grep -qsx "$(rxe_gid_of "$rxe_net.2")" /sys/class/infiniband/rxe1/ports/1/gids/*
}

# rxe_free_name: prints the first name rxeN that no device has.
rxe_free_name() {
	local i=0
	while [[ -e /sys/class/infiniband/rxe$i ]]; do i=$((i + 1)); done
	echo "rxe$i"
}

# rxe_env NETDEV...: prints the environment of the rxe ring, one NAME=VALUE a line.
rxe_env() {
	local i=0 net
	echo RMATAIL_RXE=1
	for net; do
		printf 'RMATAIL_RXE_DEV%d=%s\nRMATAIL_RXE_NET%d=%s\nRMATAIL_RXE_ADDR%d=%s\n' \
			"$i" "$(rxe_of "$net")" "$i" "$net" "$i" "$(rxe_addr_of "$net")"
		i=$((i + 1))
	done
}

# rxe_addr_of NETDEV: prints its first IPv4 address.
rxe_addr_of() {
	ip -4 -o addr show dev "$1" | awk '{sub("/.*", "", $4); print $4; exit}'
}
