# The ARM machines that hpt is built for, and cargo for them with Debian's cross compilers. Sourced by scripts.
# shellcheck shell=bash

# By name: the Rust target, the prefix of Debian's cross tools, QEMU's user-mode emulator, the folder of the C library, the packages of Debian.
declare -A ARM_TARGET=([aarch64]=aarch64-unknown-linux-gnu [armv7]=armv7-unknown-linux-gnueabihf)
declare -A ARM_TOOLS=([aarch64]=aarch64-linux-gnu- [armv7]=arm-linux-gnueabihf-)
declare -A ARM_EMULATOR=([aarch64]=qemu-aarch64-static [armv7]=qemu-arm-static)
declare -A ARM_LIBRARY=([aarch64]=/usr/aarch64-linux-gnu [armv7]=/usr/arm-linux-gnueabihf)
declare -A ARM_PACKAGES=(
    [aarch64]='qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
    [armv7]='qemu-user-static gcc-arm-linux-gnueabihf libc6-dev-armhf-cross'
)

# arm_install NAME...: the targets by rustup; emulator, cross compilers and their C libraries by apt-get as root. Fails where they are missing and cannot be installed.
arm_install() {
    local name packages installed wanted=()
    for name in "$@"; do
        if command -v "${ARM_EMULATOR[$name]}" "${ARM_TOOLS[$name]}gcc" >/dev/null && [[ -e ${ARM_LIBRARY[$name]}/lib/crt1.o ]]; then continue; fi
        read -ra packages <<<"${ARM_PACKAGES[$name]}"
        wanted+=("${packages[@]}")
    done
    if ((${#wanted[@]} > 0)); then
        if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
            echo "missing, and only root on Debian can install: ${wanted[*]}" >&2
            return 1
        fi
        apt-get update -qq || return 1
        DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "${wanted[@]}" || return 1
    fi
    installed=$(rustup target list --installed)
    for name in "$@"; do
        grep -qx -- "${ARM_TARGET[$name]}" <<<"$installed" || rustup target add "${ARM_TARGET[$name]}" || return 1
    done
}

# By name: the loader of the C library.
declare -A ARM_LOADER=([aarch64]=ld-linux-aarch64.so.1 [armv7]=ld-linux-armhf.so.3)

# arm_test NAME [ARGUMENT...]: `cargo test` for that machine, run by the emulator. The one build serves the tests under user-mode emulation and the emulated
# boards of .ci/run. For this call only: a linker or a runner in .cargo/config.toml would take over native builds on a Pi.
# The programs name their loader and libraries where Debian has them. With QEMU's option -L the emulator would find those too, and show programs another root folder.
arm_test() {
    local name=$1 variable library=${ARM_LIBRARY[$1]}/lib flags
    flags="-C link-arg=-Wl,--dynamic-linker=$library/${ARM_LOADER[$name]} -C link-arg=-Wl,-rpath,$library"
    variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"${ARM_TARGET[$name]}")
    # Our own code is optimized, because it is emulated; what it is built on is compiled as fast as possible.
    # G_SLICE: children of a program with threads hang in QEMU before 8.0, because GLib's own allocator is not safe across fork. QEMU commit "tcg: use QTree
    # instead of GTree" (issue 285 of its tracker).
    env G_SLICE=always-malloc "${variable}_LINKER=${ARM_TOOLS[$name]}gcc" "${variable}_RUNNER=${ARM_EMULATOR[$name]}" \
        "${variable}_RUSTFLAGS=$flags" "${variable}_RUSTDOCFLAGS=$flags" \
        HPT_TEST_RUNNER="${ARM_EMULATOR[$name]}" CC="${ARM_TOOLS[$name]}gcc" CARGO_PROFILE_DEV_DEBUG=line-tables-only \
        cargo --config 'profile.dev.package.hpt-core.opt-level=1' test --locked --target "${ARM_TARGET[$name]}" "${@:2}"
}
