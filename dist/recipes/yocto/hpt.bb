SUMMARY = "Measure and diagnose clocks and latency on Linux"
DESCRIPTION = "hpt lists every time source of a machine, calibrates them with a stated error bound, measures read overhead, wake-up latency and OS noise, and finds what causes latency."
HOMEPAGE = "@REPOSITORY@"
BUGTRACKER = "@REPOSITORY@/issues"
SECTION = "console/utils"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "\
    file://LICENSE-APACHE;md5=@MD5_APACHE@ \
    file://LICENSE-MIT;md5=@MD5_MIT@ \
"
CVE_PRODUCT = "hpt"

SRC_URI = "@REPOSITORY@/releases/download/v${PV}/hpt_${PV}.orig.tar.xz"
SRC_URI[sha256sum] = "@SHA256_SOURCE@"

require hpt-crates.inc

S = "${UNPACKDIR}/hpt-${PV}"

inherit cargo

CARGO_SRC_DIR = "crates/hpt-cli"

COMPATIBLE_HOST = "(aarch64|arm|x86_64).*-linux.*"
