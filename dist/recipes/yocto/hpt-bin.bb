SUMMARY = "Measure and diagnose clocks and latency on Linux (static program)"
DESCRIPTION = "The static program of a release of hpt, for images that are built without Rust."
HOMEPAGE = "@REPOSITORY@"
BUGTRACKER = "@REPOSITORY@/issues"
SECTION = "console/utils"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "\
    file://LICENSE-APACHE;md5=@MD5_APACHE@ \
    file://LICENSE-MIT;md5=@MD5_MIT@ \
"
CVE_PRODUCT = "hpt"

HPT_MACHINE:aarch64 = "aarch64"
HPT_MACHINE:armv6 = "armv6"
HPT_MACHINE:armv7a = "armv7"
HPT_MACHINE:armv7ve = "armv7"
HPT_MACHINE:x86-64 = "x86_64"

# The names of the checksums are those of the machines.
# nooelint: oelint.vars.srcurichecksum
SRC_URI = "@REPOSITORY@/releases/download/v${PV}/hpt-${PV}-${HPT_MACHINE}-linux.tar.xz;name=${HPT_MACHINE}"
SRC_URI[aarch64.sha256sum] = "@SHA256_AARCH64@"
SRC_URI[armv6.sha256sum] = "@SHA256_ARMV6@"
SRC_URI[armv7.sha256sum] = "@SHA256_ARMV7@"
SRC_URI[x86_64.sha256sum] = "@SHA256_X86_64@"

S = "${UNPACKDIR}/hpt-${PV}-${HPT_MACHINE}-linux"

inherit bin_package

do_install() {
    install -D -m 0755 ${S}/bin/hpt ${D}${bindir}/hpt
    install -d ${D}${mandir}/man1
    install -m 0644 ${S}/share/man/man1/* ${D}${mandir}/man1
}

COMPATIBLE_HOST = "(aarch64|arm|x86_64).*-linux.*"
# The program of the release has no symbols.
# nooelint: oelint.vars.insaneskip
INSANE_SKIP:${PN} = "already-stripped"
RPROVIDES:${PN} = "hpt"
RCONFLICTS:${PN} = "hpt"
