# shellcheck shell=bash
# Messages of the scripts: to stderr, each under the name of the script that speaks,
# so that a script's stdout stays its result.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die CODE MESSAGE...
die() {
	local code=$1
	shift
	say "$@"
	exit "$code"
}
