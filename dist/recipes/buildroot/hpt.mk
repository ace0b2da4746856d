################################################################################
#
# hpt
#
################################################################################

HPT_VERSION = @VERSION@
HPT_SOURCE = hpt_$(HPT_VERSION).orig.tar.xz
HPT_SITE = @REPOSITORY@/releases/download/v$(HPT_VERSION)
HPT_LICENSE = MIT or Apache-2.0
HPT_LICENSE_FILES = LICENSE-APACHE LICENSE-MIT
HPT_SUBDIR = crates/hpt-cli

$(eval $(cargo-package))
