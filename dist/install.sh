#!/bin/sh
# Installs the command hpt for this user, or for all users, from the static tarball of a release.
set -eu

usage() {
    cat <<'END'
Install hpt, a static program for Linux.

Usage: sh install.sh [--to DIR] [--from PLACE]

  --to DIR      install in DIR/bin and DIR/share [default: ~/.local; as root: /usr/local]
  --from PLACE  the release's files: an address or a directory [default: the address of this release]
  --help        print this help

Compares the tarball with SHA256SUMS of the release. Needs tar, xz, sha256sum, and curl or wget.
To remove hpt, delete the files that this program lists at the end.

Exit codes: 0 installed, 1 not installed, 2 wrong usage.
END
}

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

version=@VERSION@ repository=@REPOSITORY@
if [ "$(id -u)" = 0 ]; then to=/usr/local; else to=${HOME:-}/.local; fi
from=
if [ -n "$repository" ]; then from=$repository/releases/download/v$version; fi
while [ $# -gt 0 ]; do
    case $1 in
        --to | --from)
            [ -n "${2:-}" ] || { usage >&2; exit 2; }
            if [ "$1" = --to ]; then to=$2; else from=$2; fi
            shift
            ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
[ -n "$from" ] || fail 'this release has no address: name its directory with --from'

[ "$(uname -s)" = Linux ] || fail "hpt runs on Linux, and this is $(uname -s)"
case $(uname -m) in
    x86_64) machine=x86_64 ;;
    aarch64) machine=aarch64 ;;
    armv7* | armv8l) machine=armv7 ;;
    armv6*) machine=armv6 ;;
    *) fail "there is no tarball for $(uname -m): build hpt with cargo" ;;
esac
# A 64-bit kernel can run a 32-bit system, which the 32-bit program suits; the other way around, nothing runs.
if [ "$machine" = aarch64 ] && [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 32 ]; then machine=armv7; fi

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
name=hpt-$version-$machine-linux

# fetch FILE: puts a file of the release into the work directory.
fetch() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl --fail --silent --show-error --location --output "$work/$1" "$from/$1"
            elif command -v wget >/dev/null; then
                wget --quiet --output-document "$work/$1" "$from/$1"
            else
                fail 'neither curl nor wget is installed'
            fi
            ;;
        *) cp -- "$from/$1" "$work/$1" ;;
    esac || fail "cannot get $1 from $from"
}

fetch SHA256SUMS
fetch "$name.tar.xz"
(cd -- "$work" && grep " $name.tar.xz\$" SHA256SUMS | sha256sum --check --status) || fail "$name.tar.xz differs from its checksum"
tar -xJf "$work/$name.tar.xz" -C "$work" || fail "cannot unpack $name.tar.xz: xz is needed"

mkdir -p -- "$to/bin" "$to/share" || fail "cannot write to $to"
(cd -- "$work/$name" && find bin share -type f) | sort >"$work/files"
while IFS= read -r file; do
    mkdir -p -- "$to/$(dirname -- "$file")"
    # A new file and a rename, so that a running hpt is not disturbed.
    if ! cp -- "$work/$name/$file" "$to/$file.new" || ! mv -f -- "$to/$file.new" "$to/$file"; then fail "cannot write $to/$file"; fi
    printf '%s\n' "$to/$file"
done <"$work/files"
"$to/bin/hpt" --version >/dev/null || fail "$to/bin/hpt does not run here"
case :$PATH: in
    *:"$to/bin":*) printf 'installed. Begin with: hpt doctor\n' ;;
    *) printf 'installed. %s is not in PATH; begin with: %s/bin/hpt doctor\n' "$to/bin" "$to" ;;
esac
