# Kernel modules for Debian's kernels of any architecture, cross-built against the headers of Debian's own packages; nothing is installed.
# Sourced by scripts, after debian.bash and debian_root. Loads nothing.
# The private root of apt is debian_root's, in `debian`.
# shellcheck disable=SC2154

# By Debian's name of an ARM kernel's architecture: the cross compiler.
declare -A COMPILER=([arm64]=aarch64-linux-gnu [armhf]=arm-linux-gnueabihf [armel]=arm-linux-gnueabi)

# kernel_image KERNEL: the newest package of the kernel that the metapackage KERNEL (NAME:ARCHITECTURE) names, without its architecture.
kernel_image() {
    local found
    found=$(debian_depends "$1" '^linux-image-[0-9]')
    echo "${found%%:*}"
}

# kernel_headers KERNEL: the folder that modules for that kernel are built in.
kernel_headers() {
    local headers common kbuild tree architecture=${1##*:}
    headers=$(kernel_image "$1")
    headers=${headers/image/headers}
    tree=$debian/headers-$architecture
    debian_unpack "$headers:$architecture" "$tree" >/dev/null
    common=$(debian_depends "$headers:$architecture" '^<?linux-headers-.*-common' | tr -d '<>')
    kbuild=$(debian_depends "$headers:$architecture" '^linux-kbuild-')
    debian_unpack "${common%%:*}" "$tree" >/dev/null
    # Its programs run here, not there.
    debian_unpack "${kbuild%%:*}" "$tree" >/dev/null
    kernel_programs "$tree" || return
    # Beside it, wherever the cache was moved or copied to.
    sed -i "s|^include .*/usr/src/|include ../|; s|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT=$tree/usr/src/$headers|" "$tree/usr/src/$headers/Makefile"
    echo "$tree/usr/src/$headers"
}

# kernel_programs TREE: sees that the programs of linux-kbuild there run here. Those of a newer Debian are given its C library.
kernel_programs() {
    local program own library
    for program in "$1"/usr/lib/linux-kbuild-*/scripts/{basic/fixdep,mod/modpost,mod/modpost.real-?sb-??}; do
        if [[ ! -e $program || -e $program.own ]] || ! { "$program" </dev/null 2>&1 || true; } | grep -q 'GLIBC_.* not found'; then continue; fi
        own=${program%/*}/.libc
        if [[ ! -e $own ]]; then
            library=$(debian_unpack libc6) || return
            mkdir -p -- "$own.new"
            find "$library" \( -name 'ld-linux*.so.*' -o -name libc.so.6 \) -type f -exec cp -t "$own.new" {} +
            mv -- "$own.new" "$own"
        fi
        mv -- "$program" "$program.own"
        # shellcheck disable=SC2016
        printf '#!/bin/sh\nhere=$(dirname -- "$(readlink -f -- "$0")")\nexec "$here"/.libc/ld-linux*.so.* --library-path "$here/.libc" "$here/%s" "$@"\n' \
            "${program##*/}.own" >"$program"
        chmod 755 "$program"
    done
}

# kernel_modules KERNEL FOLDER [ARGUMENT...]: builds the modules whose sources and Makefile are in the folder, with further arguments for make.
kernel_modules() {
    local headers architecture=${1##*:}
    headers=$(kernel_headers "$1")
    make -s -C "$headers" M="$2" DEB_HOST_ARCH="$architecture" DEB_HOST_GNU_TYPE="${COMPILER[$architecture]}" \
        DEB_BUILD_ARCH="$(dpkg --print-architecture)" "${@:3}" modules
}
