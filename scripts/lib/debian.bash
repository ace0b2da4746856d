# Downloads Debian packages of any architecture and unpacks them into a directory. Installs nothing
# and needs no privileges. apt uses a private root, so that foreign architectures need not be added
# to the system. Sourced by scripts.

# debian_root DIR [SUITE]: makes DIR apt's root, for this machine's release and its backports, or
# for SUITE alone. The mirror, its key and a proxy come from the system's configuration.
debian_root() {
    debian=$1
    local codename native
    native=$(dpkg --print-architecture)
    # The file is part of the system.
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && [[ $ID == debian ]] && echo "$VERSION_CODENAME") || {
        echo 'this machine is not Debian' >&2
        return 1
    }
    mkdir -p "$debian"/etc/{sources.list.d,preferences.d} "$debian"/state/lists/partial "$debian"/cache/archives/partial
    : >>"$debian/status"
    if [[ ! -s $debian/etc/sources.list ]]; then
        local mirror
        # apt does not report the mirror if its package lists are missing; apt-get update gets them.
        mirror=$(debian_mirror "$codename")
        if [[ -z $mirror && $(id -u) == 0 ]]; then
            apt-get update -qq >&2
            mirror=$(debian_mirror "$codename")
        fi
        if [[ -z $mirror ]]; then
            echo "apt reports no mirror of $codename main; run apt-get update as root" >&2
            return 1
        fi
        local key=/usr/share/keyrings/debian-archive-keyring.gpg
        if [[ -n ${2:-} ]]; then
            printf "deb [signed-by=$key] %s %s main\n" "$mirror" "$2" >"$debian/etc/sources.list"
        else
            printf "deb [signed-by=$key] %s %s main\ndeb [arch=%s signed-by=$key] %s %s-backports main\n" \
                "$mirror" "$codename" "$native" "$mirror" "$codename" >"$debian/etc/sources.list"
        fi
    fi
    cat >"$debian/apt.conf" <<CONF
Dir::State "$debian/state";
Dir::State::status "$debian/status";
Dir::Cache "$debian/cache";
Dir::Etc::sourcelist "$debian/etc/sources.list";
Dir::Etc::sourceparts "$debian/etc/sources.list.d";
Dir::Etc::preferences "$debian/etc/preferences";
Dir::Etc::preferencesparts "$debian/etc/preferences.d";
APT::Architecture "$native";
APT::Architectures { "$native"; "arm64"; "armhf"; "armel"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
    export APT_CONFIG=$debian/apt.conf
    if [[ ! -e $debian/updated ]]; then debian_update; fi
}

debian_mirror() {
    # apt's own names, not the shell's.
    # shellcheck disable=SC2016
    env -u APT_CONFIG apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(CODENAME) $(SUITE) $(COMPONENT)' |
        awk -v name="$1" '$1 == "Packages" && ($3 == name || $4 == name) && $5 == "main" && !/security/ { print $2; exit }'
}

# A suite that the mirror lacks must not make the others fail.
debian_update() {
    apt-get update -qq >"$debian/update.log" 2>&1 || true
    if ! compgen -G "$debian/state/lists/*_Packages*" >/dev/null; then
        cat -- "$debian/update.log" >&2
        return 1
    fi
    touch -- "$debian/updated"
}

# debian_codename: prints the name of this machine's release.
debian_codename() {
    # The file is part of the system.
    # shellcheck disable=SC1091
    (. /etc/os-release && echo "$VERSION_CODENAME")
}

# debian_depends PACKAGE PATTERN: prints the dependency of PACKAGE whose name matches PATTERN. For
# names that contain a version.
debian_depends() {
    # In containers, apt has no package cache, and each query takes seconds without one.
    apt-cache -o Dir::Cache::pkgcache=pkgcache.bin depends "$1" | sed -n 's/^ *Depends: //p' | grep -m 1 -E -- "$2" || {
        echo "the mirror has no $1 with a dependency that matches $2" >&2
        return 1
    }
}

# debian_unpack PACKAGE[:ARCH][/SUITE] [DIR]: downloads the package once, unpacks it into DIR
# or into its own directory, and prints the directory.
debian_unpack() {
    local name=${1//\//_} downloads
    local folder=${2:-$debian/unpacked/$name}
    local done=$folder/.unpacked/$name
    if [[ ! -e $done ]]; then
        downloads=$(mktemp -d "$debian/download.XXXXXX")
        if ! debian_download "$1" "$downloads" >"$debian/download.log" 2>&1; then
            rm -rf -- "$downloads"
            echo "$1 cannot be downloaded: $(grep -m 1 '^E:' "$debian/download.log" || tail -n 1 "$debian/download.log")" >&2
            return 1
        fi
        mkdir -p -- "$folder/.unpacked"
        dpkg -x "$downloads"/*.deb "$folder"
        rm -rf -- "$downloads"
        touch -- "$done"
    fi
    echo "$folder"
}

# Outdated package lists refer to files that the mirror no longer has.
debian_download() (
    cd -- "$2" || return
    apt-get download -qq "$1" || { debian_update && apt-get download -qq "$1"; }
)
