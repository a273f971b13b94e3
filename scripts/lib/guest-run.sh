#!/bin/bash
# In rxe-vm's guest, over the host's root: network, limits and environment, then the command.
# The host has put beside this file: log.sh, rxe.sh, and run.sh, which holds the run's variables and its command as an array.
# shellcheck disable=SC2154 # run_* are set by run.sh
set -uo pipefail
here=/run/rxe-vm
# shellcheck disable=SC2034 # for log.sh
me='rxe-vm guest'
# shellcheck source=scripts/lib/log.sh
. "$here/log.sh"
# shellcheck source=scripts/lib/rxe.sh
. "$here/rxe.sh"
# shellcheck disable=SC1091 # written for each run
. "$here/run.sh"

fail() {
	say "$*"
	exit 125
}

export PATH=$run_path:/usr/sbin:/usr/bin:/sbin:/bin
# Registered memory counts against memlock, and tests that want a small limit can lower it.
ulimit -l unlimited
ulimit -c 0
ulimit -Hn 1048576
ulimit -Sn 65536
mkdir -p /tmp/home
export HOME=/tmp/home TERM=dumb

ip link set lo up || fail "lo does not come up"
case $run_net in
two)
	# Links that tests add later shall behave like the two of the topology.
	for c in all default; do
		echo 1 >/proc/sys/net/ipv4/conf/$c/accept_local
		echo 0 >/proc/sys/net/ipv4/conf/$c/rp_filter
	done
	rxe_pair_up || fail "the soft-RoCE devices do not come up"
	set -a
	eval "$(rxe_env v0 v1)"
	set +a
	;;
none)
	unset "${!RMATAIL_RXE@}"
	;;
esac

read -r up _ </proc/uptime
cd "$run_cwd" 2>/dev/null || fail "the directory $run_cwd is not visible in the guest; it lives on a part of the host that is not passed through (/run, /dev, /proc, /sys)"

# The host's limit counts from the start of the guest. A command that does not end gets SIGQUIT, on which a Go program prints its goroutines.
left=$((run_timeout - ${up%%.*}))
((left >= 1)) || left=1
rc=0
: >"$here/started"
timeout --signal=QUIT --kill-after=5 "$left" "${run_cmd[@]}" || rc=$?
if ((rc == 124 || rc == 137)); then
	read -r now _ </proc/uptime
	((${now%%.*} < run_timeout)) || { say "ended after $run_timeout s (--timeout), boot included: ${run_cmd[*]}"; rc=124; }
fi
exit "$rc"
