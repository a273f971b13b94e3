# shellcheck shell=bash
# Messages of the scripts: to stderr, each under the name of the script that speaks ($me if that is set),
# so that a script's stdout stays its result.

say() { printf '%s: %s\n' "${me:-${0##*/}}" "$*" >&2; }

# die CODE MESSAGE...
die() {
	local code=$1
	shift
	say "$@"
	exit "$code"
}
