# Cross-builds kernel modules for Debian's kernels of any architecture, with the headers from
# Debian's packages. Installs nothing and loads no module. Sourced by scripts, after debian.bash and
# debian_root. The variable `debian` is apt's private root, set by debian_root.
# shellcheck disable=SC2154

# The cross compiler for each ARM architecture, by Debian's name.
declare -A COMPILER=([arm64]=aarch64-linux-gnu [armhf]=arm-linux-gnueabihf [armel]=arm-linux-gnueabi)

# A kernel of another release was built with another compiler than this machine's. These variables
# turn off options of newer compilers, and debug information that needs the kernel image.
FOREIGN_KERNEL=(CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT= CONFIG_DEBUG_INFO_BTF_MODULES=)

# kernel_image KERNEL: prints the newest kernel package that the metapackage KERNEL
# (NAME:ARCHITECTURE) depends on, without its architecture.
kernel_image() {
    local found
    found=$(debian_depends "$1" '^linux-image-[0-9]')
    echo "${found%%:*}"
}

# kernel_headers KERNEL: prints the build directory for modules of that kernel.
kernel_headers() {
    local headers common kbuild tree architecture=${1##*:}
    headers=$(kernel_image "$1")
    headers=${headers/image/headers}
    tree=$debian/headers-$architecture
    debian_unpack "$headers:$architecture" "$tree" >/dev/null
    common=$(debian_depends "$headers:$architecture" '^<?linux-headers-.*-common' | tr -d '<>')
    kbuild=$(debian_depends "$headers:$architecture" '^linux-kbuild-')
    debian_unpack "${common%%:*}" "$tree" >/dev/null
    # Its programs run on this machine, not on the board.
    debian_unpack "${kbuild%%:*}" "$tree" >/dev/null
    kernel_programs "$tree" || return
    # Relative paths, so that the cache can be moved or copied.
    sed -i "s|^include .*/usr/src/|include ../|; s|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT=$tree/usr/src/$headers|" "$tree/usr/src/$headers/Makefile"
    echo "$tree/usr/src/$headers"
}

# kernel_programs TREE: makes the programs of linux-kbuild in TREE run on this machine. Programs
# from a newer Debian are run with the C library of that release.
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

# kernel_modules_foreign KERNEL DIR [ARGUMENT...]: does what kernel_modules does, for the kernel of
# another release, with this machine's compiler.
kernel_modules_foreign() { kernel_modules "$1" "$2" "${FOREIGN_KERNEL[@]}" "CC=${COMPILER[${1##*:}]:+${COMPILER[${1##*:}]}-}gcc" "${@:3}"; }

# kernel_modules KERNEL DIR [ARGUMENT...]: builds the modules whose sources and Makefile are in
# DIR, with additional arguments for make.
kernel_modules() {
    local headers architecture=${1##*:}
    headers=$(kernel_headers "$1")
    make -s -C "$headers" M="$2" DEB_HOST_ARCH="$architecture" DEB_HOST_GNU_TYPE="${COMPILER[$architecture]:-}" \
        DEB_BUILD_ARCH="$(dpkg --print-architecture)" "${@:3}" modules
}
