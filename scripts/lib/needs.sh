# shellcheck shell=bash disable=SC2034 # lists for the scripts that source this
# Debian's packages, by what needs them. The one place where they are listed: for a checkout, for CI and for the image.

# needs_build: a C compiler, and the header files of verbs.
needs_build=(gcc libc6-dev libibverbs-dev)

# needs_run: libibverbs, which a node or a consumer loads when it starts, and the drivers that it loads for each kind of device.
needs_run=(libibverbs1 ibverbs-providers)

# needs_capability: to give a file a capability.
needs_capability=(libcap2-bin)

# needs_deploy: what the files for deployment are held against.
needs_deploy=(debootstrap git libcap2-bin shellcheck strace systemd util-linux)
