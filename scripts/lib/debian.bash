# Debian's packages of any architecture, downloaded and unpacked into a folder; nothing is installed and no rights are needed.
# apt gets a root of its own, so that foreign architectures do not have to be added to the machine. Sourced by scripts.

# debian_root DIR [SUITE]: DIR becomes apt's root, for the machine's own release with its backports, or for SUITE alone. The mirror, its key and a proxy come from the machine's own configuration.
debian_root() {
    debian=$1
    local codename native
    native=$(dpkg --print-architecture)
    # The file belongs to the machine.
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && [[ $ID == debian ]] && echo "$VERSION_CODENAME") || {
        echo 'this machine is not Debian' >&2
        return 1
    }
    mkdir -p "$debian"/etc/{sources.list.d,preferences.d} "$debian"/state/lists/partial "$debian"/cache/archives/partial
    : >>"$debian/status"
    if [[ ! -s $debian/etc/sources.list ]]; then
        local mirror
        # Without its lists the machine does not tell; then the lists are all that is missing.
        mirror=$(debian_mirror "$codename")
        if [[ -z $mirror && $(id -u) == 0 ]]; then
            apt-get update -qq >&2
            mirror=$(debian_mirror "$codename")
        fi
        if [[ -z $mirror ]]; then
            echo "apt names no mirror of $codename main: apt-get update, as root, would help" >&2
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

# A suite that the mirror does not have spoils only what is wanted of it.
debian_update() {
    apt-get update -qq >"$debian/update.log" 2>&1 || true
    if ! compgen -G "$debian/state/lists/*_Packages*" >/dev/null; then
        cat -- "$debian/update.log" >&2
        return 1
    fi
    touch -- "$debian/updated"
}

# debian_depends PACKAGE PATTERN: the dependency of PACKAGE whose name matches, for names that carry a version.
debian_depends() {
    # Without a cache, as containers are set up, each question takes seconds.
    apt-cache -o Dir::Cache::pkgcache=pkgcache.bin depends "$1" | sed -n 's/^ *Depends: //p' | grep -m 1 -E -- "$2" || {
        echo "the mirror has no $1 that depends on $2" >&2
        return 1
    }
}

# debian_unpack PACKAGE[:ARCH][/SUITE] [FOLDER]: downloads it once, unpacks it into FOLDER or one of its own, and prints the folder.
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

# Lists that are out of date name files that the mirror no longer has.
debian_download() (
    cd -- "$2" || return
    apt-get download -qq "$1" || { debian_update && apt-get download -qq "$1"; }
)
