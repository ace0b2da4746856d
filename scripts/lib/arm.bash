# Builds and tests hpt for ARM with cargo and Debian's cross compilers. Sourced by scripts.
# shellcheck shell=bash

# By name: the Rust target, the prefix of Debian's cross tools, QEMU's user-mode emulator, the
# directory of the C library, and Debian's packages.
declare -A ARM_TARGET=([aarch64]=aarch64-unknown-linux-gnu [armv7]=armv7-unknown-linux-gnueabihf)
declare -A ARM_TOOLS=([aarch64]=aarch64-linux-gnu- [armv7]=arm-linux-gnueabihf-)
declare -A ARM_EMULATOR=([aarch64]=qemu-aarch64-static [armv7]=qemu-arm-static)
declare -A ARM_LIBRARY=([aarch64]=/usr/aarch64-linux-gnu [armv7]=/usr/arm-linux-gnueabihf)
declare -A ARM_PACKAGES=(
    [aarch64]='qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
    [armv7]='qemu-user-static gcc-arm-linux-gnueabihf libc6-dev-armhf-cross'
)

# arm_install NAME...: installs the targets with rustup, and the emulator, cross compilers and their
# C libraries with apt-get (as root). Fails if something is missing and cannot be installed.
arm_install() {
    local name packages installed wanted=()
    for name in "$@"; do
        if command -v "${ARM_EMULATOR[$name]}" "${ARM_TOOLS[$name]}gcc" >/dev/null && [[ -e ${ARM_LIBRARY[$name]}/lib/crt1.o ]]; then continue; fi
        read -ra packages <<<"${ARM_PACKAGES[$name]}"
        wanted+=("${packages[@]}")
    done
    if ((${#wanted[@]} > 0)); then
        if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
            echo "missing packages: ${wanted[*]}; only root on Debian can install them" >&2
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

# arm_cargo NAME COMMAND [ARGUMENT...]: runs cargo for that architecture. Programs run under the
# emulator. The tests under user-mode emulation and the emulated boards of .ci/run use the same
# builds. The variables apply to this call only: a linker or runner in .cargo/config.toml would also
# affect native builds on a Pi. The programs contain the paths where Debian installs their loader and
# libraries. QEMU's option -L would also find those, but would show a different root directory to
# the programs.
arm_cargo() {
    local name=$1 variable library=${ARM_LIBRARY[$1]}/lib flags
    flags="-C link-arg=-Wl,--dynamic-linker=$library/${ARM_LOADER[$name]} -C link-arg=-Wl,-rpath,$library"
    variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"${ARM_TARGET[$name]}")
    # G_SLICE: before QEMU 8.0, child processes of a program with threads hang, because
    # GLib's own allocator is not safe across fork. QEMU commit "tcg: use QTree instead of GTree"
    # (issue 285 of its tracker).
    env G_SLICE=always-malloc "${variable}_LINKER=${ARM_TOOLS[$name]}gcc" "${variable}_RUNNER=${ARM_EMULATOR[$name]}" \
        "${variable}_RUSTFLAGS=$flags" "${variable}_RUSTDOCFLAGS=$flags" \
        HPT_TEST_RUNNER="${ARM_EMULATOR[$name]}" CC="${ARM_TOOLS[$name]}gcc" \
        cargo "$2" --locked --target "${ARM_TARGET[$name]}" "${@:3}"
}

# The tests of the libraries that .ci/run builds for ARM. Other scripts use both
# lists.
# shellcheck disable=SC2034
ARM_TESTS=(--package hpt-sys --package hpt-core --package hpt-instrument --all-features --lib --test it)

# The names of those tests whose code depends on the processor or on the word size. The boards of
# .ci/run repeat the tests of live machines with their own kernels.
# shellcheck disable=SC2034
ARM_DEPENDENT=(linux:: source:: clock:: sleep:: trace:: scale:: units:: cast:: calibrate:: stopwatch:: instants:: sleeps:: edges::)

# Of those, parsers, and simulations that read a clock some million times, which takes minutes under emulation.
# shellcheck disable=SC2034
ARM_LONG=(
    --skip linux::host::
    --skip a_stuck_counter_is_refused --skip a_stopped_or_racing_clock_is_refused --skip a_reference_that_is_not_a_clock_or_has_stopped
    --skip while_an_offset_is_slewed --skip clock::linux::contention
)
