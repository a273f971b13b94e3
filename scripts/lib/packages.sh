# shellcheck shell=bash
# Distribution packages. Installs only as root on Debian or Ubuntu; everybody else is told what to install. Needs log.sh.

# have COMMAND...: all are in PATH, or in the sbin directories, which an ordinary user's PATH often lacks.
have() {
	local c
	for c; do
		PATH=$PATH:/usr/sbin:/sbin command -v "$c" >/dev/null || return 1
	done
}

# apt_lists: package lists are there, fetched first when there are none and we may.
apt_lists() {
	have apt-get apt-cache || return 1
	if [[ -z $(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' -print -quit 2>/dev/null) ]]; then
		((EUID == 0)) || return 1
		apt-get -qq update >&2 || return 1
	fi
}

# packages_need WHY PACKAGE...: installs the packages. Otherwise says what to install and returns 1.
packages_need() {
	local why=$1
	shift
	if ((EUID == 0)) && apt_lists; then
		say "installing $* ($why)"
		# The lock is waited for, as another run may be installing the same packages at this moment.
		if DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
			-o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install "$@" >/dev/null; then
			return 0
		fi
		# Stale lists name versions that the mirror no longer has: one more try with new ones.
		if apt-get -qq update >&2 && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
			-o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install "$@" >/dev/null; then
			return 0
		fi
		say "cannot install $* ($why)"
		return 1
	fi
	if have apt-get; then
		say "missing: $why. Install it with: sudo apt-get install --no-install-recommends $*"
	else
		say "missing: $why. Install what your distribution has for Debian's packages: $*"
	fi
	return 1
}

# package_fetch DIR PACKAGE: downloads one package file into DIR without installing it, which needs no root,
# and prints its path.
package_fetch() {
	local dir=$1 pkg=$2 out
	apt_lists || return 1
	out=$(mktemp -d "$dir/fetch.XXXXXX") || return 1
	if ! package_download "$out" "$pkg" && ! { ((EUID == 0)) && apt-get -qq update >&2 && package_download "$out" "$pkg"; }; then
		rm -rf "$out"
		return 1
	fi
	mv -f "$out"/*.deb "$dir/" && rm -rf "$out"
	find "$dir" -maxdepth 1 -name "${pkg}_*.deb" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-
}

# package_download DIR PACKAGE. As root apt would drop to a user of its own, which often cannot write below a checkout, and warn about it.
package_download() { (cd "$1" && apt-get -qq -o APT::Sandbox::User=root download "$2" >&2); }
