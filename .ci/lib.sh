# Sourced by ./run and ./test.

# What a build needs beside the Rust toolchain; installs what is missing.
need_build_packages() {
    local packages=()
    command -v cc >/dev/null || packages+=(build-essential)
    install_packages "${packages[@]}"
}

# An etcd: the one that KINDOM_ETCD names, or the one on PATH.
need_etcd() {
    [ -n "${KINDOM_ETCD:-}" ] || command -v etcd >/dev/null || install_packages etcd-server
}

# Installs Debian packages, or says in one line which ones to install and fails.
install_packages() {
    [ $# -gt 0 ] || return 0
    local as=()
    if ! command -v apt-get >/dev/null; then
        echo "kindom: please install what Debian calls: $*" >&2
        return 1
    elif [ "$(id -u)" -ne 0 ]; then
        as=(sudo -n)
        if ! sudo -n true 2>/dev/null; then
            echo "kindom: please run: sudo apt-get install $*" >&2
            return 1
        fi
    fi
    echo "kindom: installing with apt-get: $*" >&2
    "${as[@]}" apt-get update -qq
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# cargo at the repository's root, so that rust-toolchain.toml holds whatever the caller's folder is.
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
cargo_here() {
    (cd "$root" && CARGO_TARGET_DIR="$target_dir" cargo "$@")
}
