# shellcheck shell=bash
# The guest's kernel: finds one that has soft-RoCE, and keeps of it what a boot needs. Needs log.sh and packages.sh.
#
# A prepared kernel is a directory that holds
#   vmlinux (or vmlinuz)   the image; an ELF image boots by PVH, which saves its decompression under emulation: 6 s of 12
#   busybox                static, for the initrd
#   modules/*.ko           uncompressed
#   modules/order          lines "required|optional FILE PARAMETER...", in loading order
#   version                the kernel's release
# It appears under its final name complete or not at all.

# Changes whenever what is prepared changes, so that an older cache is not mistaken for ours.
# shellcheck disable=SC2034 # used by rxe-vm
kernel_format=2

# Without one of these there is no guest.
kernel_required=(virtio_pci 9pnet_virtio 9p overlay ib_uverbs rdma_rxe veth)
# crc32_generic: kernels up to 6.13 look it up by name at run time, no dependency tells, and it has to come first.
kernel_first=(crc32_generic)
kernel_optional=(af_packet sch_netem 8021q dummy tun)

# kernel_prepare DIR: a prepared kernel in DIR/kernel. Tries the kernels installed on this host, which costs no download, then the
# distribution's package.
kernel_prepare() {
	local dir=$1 image version tmp
	tmp=$(mktemp -d "$dir/new.XXXXXX") || return 1
	# shellcheck disable=SC2064 # the name of now
	trap "rm -rf '$tmp'" RETURN
	mkdir "$tmp/out"
	kernel_busybox "$tmp" || return 1

	if [[ -z ${RMATAIL_VM_KERNEL:-} ]]; then
		for image in $(printf '%s\n' /boot/vmlinuz-* | sort -rV); do
			version=${image#/boot/vmlinuz-}
			# Many hosts keep the image readable for root only.
			[[ -r $image && -d /lib/modules/$version ]] || continue
			if kernel_collect "$tmp/out" "$image" "/lib/modules/$version" 2>"$tmp/why"; then
				kernel_publish "$tmp/out" "$dir" "$version"
				return
			fi
			rm -rf "$tmp/out/modules"
		done
	fi

	kernel_unpack "$tmp" || return 1
	image=$(find "$tmp/root/boot" -name 'vmlinuz-*' | sort -V | tail -n 1)
	[[ -n $image ]] || { say "the kernel package holds no vmlinuz"; return 1; }
	version=${image##*/vmlinuz-}
	local modules=$tmp/root/lib/modules/$version
	[[ -d $modules ]] || modules=$tmp/root/usr/lib/modules/$version
	kernel_collect "$tmp/out" "$image" "$modules" || return 1
	kernel_publish "$tmp/out" "$dir" "$version"
}

kernel_publish() {
	printf '%s\n' "$3" >"$1/version"
	chmod -R a+rX "$1"
	rm -rf "$2/kernel"
	mv -T "$1" "$2/kernel"
	say "guest kernel $3 is ready in $2/kernel"
}

# kernel_packages: prints the packages that hold the distribution's standard kernel.
kernel_packages() {
	local meta
	if [[ -n ${RMATAIL_VM_KERNEL:-} ]]; then
		meta=$RMATAIL_VM_KERNEL
	elif [[ -n $(apt-cache madison linux-image-amd64) ]]; then
		meta=linux-image-amd64 # Debian
	else
		meta=linux-image-generic # Ubuntu
	fi
	# The standard package only depends on the one with a version in its name; Ubuntu's image depends on its modules, and soft-RoCE is in the
	# extra ones. A -cloud- kernel is built without soft-RoCE.
	apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$meta" 2>/dev/null |
		grep -E '^linux-(image|modules|modules-extra)-[0-9]' | grep -Ev -- '-cloud-|-unsigned-|-dbg' | sort -u
}

# kernel_unpack TMP: the kernel packages, unpacked in TMP/root.
kernel_unpack() {
	local tmp=$1 pkg deb packages
	if ! have dpkg-deb || ! apt_lists; then
		say "no kernel with soft-RoCE is installed here, and packages can be fetched on Debian and Ubuntu only (with package lists: apt-get update)."
		say "Install a kernel that has the modules ${kernel_required[*]} and leave its /boot/vmlinuz-* readable."
		return 1
	fi
	mapfile -t packages < <(kernel_packages)
	if ((${#packages[@]} == 0)); then
		say "apt knows no linux-image package with a version in its name (below ${RMATAIL_VM_KERNEL:-linux-image-amd64, linux-image-generic})"
		return 1
	fi
	mkdir "$tmp/root"
	for pkg in "${packages[@]}"; do
		say "fetching $pkg"
		if ! deb=$(package_fetch "$tmp" "$pkg") || [[ -z $deb ]]; then
			say "cannot fetch $pkg"
			return 1
		fi
		# The big subsystems that no guest of ours has hardware for are left out.
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tmp/root" --no-same-owner \
			--exclude='*/drivers/gpu' --exclude='*/drivers/media' --exclude='*/sound' --exclude='*/drivers/net/wireless' \
			--exclude='*/drivers/net/ethernet' --exclude='*/drivers/iio' --exclude='*/drivers/scsi' --exclude='*/usr/share' || return 1
		rm -f "$deb"
	done
}

# kernel_collect OUT IMAGE MODULES: fills OUT. Fails if a required module is neither built in nor there.
kernel_collect() {
	local out=$1 image=$2 modules=$3 m f
	local -A path=() builtin=() seen=()
	mkdir -p "$out/modules"
	: >"$out/modules/order"
	while read -r f; do
		m=${f##*/}
		m=${m%%.ko*}
		path[${m//-/_}]=$f
	done < <(find "$modules/" -name '*.ko' -o -name '*.ko.xz' -o -name '*.ko.zst' -o -name '*.ko.gz')
	if [[ -r $modules/modules.builtin ]]; then
		while read -r f; do
			m=${f##*/}
			m=${m%.ko}
			builtin[${m//-/_}]=1
		done <"$modules/modules.builtin"
	fi
	for m in "${kernel_first[@]}"; do kernel_module "$out" "$m" optional || return 1; done
	for m in "${kernel_required[@]}"; do kernel_module "$out" "$m" required || return 1; done
	for m in "${kernel_optional[@]}"; do kernel_module "$out" "$m" optional || return 1; done
	kernel_image "$out" "$image"
}

# kernel_module OUT NAME required|optional: the module and, before it, what it depends on. The dependencies come from the module
# itself (its .modinfo section is text), as modules.dep is not in a package but made on installation.
# Uses the arrays of kernel_collect.
kernel_module() {
	local out=$1 m=$2 need=$3 dep file deps
	[[ -z ${seen[$m]:-} && -z ${builtin[$m]:-} ]] || return 0
	seen[$m]=1
	if [[ -z ${path[$m]:-} ]]; then
		[[ $need == optional ]] && return 0
		say "this kernel has no module $m (${modules:-})"
		return 1
	fi
	file=$out/modules/$m.ko
	case ${path[$m]} in
	*.xz) xz -dc "${path[$m]}" >"$file" ;;
	*.zst) zstd -qdc "${path[$m]}" >"$file" ;;
	*.gz) gzip -dc "${path[$m]}" >"$file" ;;
	*) cp "${path[$m]}" "$file" ;;
	esac || { say "cannot unpack ${path[$m]} (are xz-utils and zstd installed?)"; return 1; }
	deps=$(tr '\0' '\n' <"$file" | LC_ALL=C sed -n 's/^depends=//p' | head -n 1)
	for dep in ${deps//,/ }; do
		kernel_module "$out" "${dep//-/_}" "$need" || return 1
	done
	m+=.ko
	[[ $m != dummy.ko ]] || m+=' numdummies=0' # else it makes a device by itself
	printf '%s %s\n' "$need" "$m" >>"$out/modules/order"
}

# kernel_image OUT IMAGE: the ELF image out of a bzImage if that is possible, else the bzImage.
# Offsets: Linux, Documentation/arch/x86/boot.rst: setup_sects 0x1f1, payload_offset 0x248, payload_length 0x24c.
kernel_image() {
	local out=$1 image=$2 sects offset length magic unpack
	sects=$(od -An -tu1 -j $((0x1f1)) -N 1 "$image")
	read -r offset length < <(od -An -tu4 -j $((0x248)) -N 8 "$image")
	offset=$(((sects + 1) * 512 + offset))
	magic=$(od -An -tx1 -j "$offset" -N 4 "$image" | tr -d ' \n')
	case $magic in
	1f8b08*) unpack="gzip -dc" ;;
	fd377a58) unpack="xz -dc --single-stream" ;;
	28b52ffd) unpack="zstd -qdc" ;;
	02214c18) unpack="lz4 -dc" ;;
	5d0000*) unpack="xz -dc --format=lzma" ;;
	7f454c46) unpack="cat" ;;
	*) unpack="false" ;;
	esac
	# After a compressed payload stand four bytes with its unpacked size, about which the programs complain; what counts is what came out.
	# shellcheck disable=SC2086 # words
	{ tail -c "+$((offset + 1))" "$image" | head -c "$length" | $unpack >"$out/vmlinux"; } 2>/dev/null || true
	# The note that PVH boot needs is the one of type 18 (XEN_ELFNOTE_PHYS32_ENTRY), owner "Xen".
	if [[ $(od -An -tx1 -N 4 "$out/vmlinux" 2>/dev/null | tr -d ' \n') == 7f454c46 ]] &&
		LC_ALL=C grep -aqP '\x04\x00\x00\x00[\x04\x08]\x00\x00\x00\x12\x00\x00\x00Xen\x00' "$out/vmlinux"; then
		return 0
	fi
	say "no ELF image with a PVH entry in $image: booting the packed one, which takes some seconds longer"
	rm -f "$out/vmlinux"
	cp "$image" "$out/vmlinuz"
}

# kernel_busybox TMP: a static busybox in TMP/out. Taken from its package without installing it, as that would push out the
# one a host may have.
kernel_busybox() {
	local tmp=$1 deb b
	for b in /bin/busybox /usr/bin/busybox; do
		# A static program has no interpreter segment, hence no path of a dynamic loader in its head.
		if [[ -x $b ]] && ! head -c 4096 "$b" | LC_ALL=C grep -aq '/ld-' && "$b" --list 2>/dev/null | grep -qx insmod; then
			cp "$b" "$tmp/out/busybox"
			return
		fi
	done
	if have dpkg-deb && deb=$(package_fetch "$tmp" busybox-static) && [[ -n $deb ]]; then
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tmp" --no-same-owner
		for b in "$tmp/bin/busybox" "$tmp/usr/bin/busybox"; do
			[[ -x $b ]] && cp "$b" "$tmp/out/busybox" && return
		done
	fi
	say "missing: a static busybox. Install it with: sudo apt-get install busybox-static"
	return 1
}
