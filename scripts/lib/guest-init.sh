#!/bin/busybox sh
# shellcheck shell=dash
# PID 1 of rxe-vm's guest, run by busybox from the initrd: loads the modules, puts an overlay over the host's root and hands over
# to guest-run.sh in it. Every failure ends the guest without a result file, which the host takes for what it is.
B=/bin/busybox
N=/newroot
D=/dev # where devtmpfs is mounted at the time

give_up() {
	$B echo "rxe-vm guest: $*" >$D/console
	$B sleep 0.2
	$B poweroff -f
}

$B mkdir -p /proc /sys /dev /lower /upper $N
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev

# The host asks only whether this accelerator boots the kernel at all.
if $B grep -qw rxevm.probe /proc/cmdline; then
	$B echo "rxe-vm guest: kernel is up" >$D/console
	$B sleep 0.2
	$B poweroff -f
fi

while read -r need m args; do
	# shellcheck disable=SC2086 # words
	$B insmod "/modules/$m" $args 2>/tmp.err || [ "$need" = optional ] || give_up "cannot load $m: $($B cat /tmp.err)"
done </modules/order

$B mount -t tmpfs -o size=75% upper /upper || give_up "no tmpfs"
$B mkdir /upper/u /upper/w /upper/carry
$B mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose hostroot /lower || give_up "cannot mount the host's root"
$B mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w root $N || give_up "cannot mount the overlay"
for d in proc sys dev; do
	$B mount --move /$d $N/$d || give_up "cannot move /$d"
done
D=$N/dev
for l in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
	[ -e "$N/dev/${l%%:*}" ] || $B ln -s "${l#*:}" "$N/dev/${l%%:*}"
done
$B mkdir -p $N/dev/shm $N/dev/pts
$B mount -t tmpfs shm $N/dev/shm
$B mount -t devpts pts $N/dev/pts

$B mount -t tmpfs run $N/run || give_up "no /run"
$B mkdir $N/run/rxe-vm
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none run $N/run/rxe-vm || give_up "cannot mount the results directory"

# The kernel measures the TSC twice, early and, for a second, against the HPET. The second result counts only if it is within one percent
# of the first; if not, the first was wrong and stays in use.
if $B grep -qw rxevm.checkclock $N/proc/cmdline; then
	i=0
	until $B dmesg | $B grep -q 'Refined TSC'; do
		i=$((i + 1))
		if [ $i -ge 100 ] || $B dmesg | $B grep -q 'Switched to clocksource tsc$'; then
			$B dmesg | $B grep -q 'Refined TSC' && break
			: >$N/run/rxe-vm/bad-clock
			give_up "wrong TSC frequency"
		fi
		$B sleep 0.1
	done
fi

# /tmp is memory, so that tests neither see nor pay for what lies in the host's; only the entries the run was found to need come through.
# They are taken from the overlay, so they can be written as well, and nothing of that reaches the host.
while IFS= read -r e; do
	[ -e "$N/tmp/$e" ] || continue
	if [ -d "$N/tmp/$e" ]; then $B mkdir "/upper/carry/$e"; else $B touch "/upper/carry/$e"; fi
	$B mount --bind "$N/tmp/$e" "/upper/carry/$e"
done <$N/run/rxe-vm/tmp-entries
$B mount -t tmpfs -o mode=1777 tmp $N/tmp || give_up "no /tmp"
while IFS= read -r e; do
	[ -e "/upper/carry/$e" ] || continue
	if [ -d "/upper/carry/$e" ]; then $B mkdir "$N/tmp/$e"; else $B touch "$N/tmp/$e"; fi
	$B mount --move "/upper/carry/$e" "$N/tmp/$e"
done <$N/run/rxe-vm/tmp-entries

i=0
while IFS= read -r dir; do
	$B mkdir -p "$N$dir"
	$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none "share$i" "$N$dir" || give_up "cannot mount the shared $dir"
	i=$((i + 1))
done <$N/run/rxe-vm/shares

$B hostname rxe-vm
$B chroot $N /bin/bash /run/rxe-vm/guest-run.sh <$N/dev/null >>$N/run/rxe-vm/stdout 2>>$N/run/rxe-vm/stderr
rc=$?
$B dmesg >$N/run/rxe-vm/dmesg
# Renamed into place: the host must never read half of it.
echo $rc >$N/run/rxe-vm/rc.new && $B mv $N/run/rxe-vm/rc.new $N/run/rxe-vm/rc
$B sync
$B poweroff -f
