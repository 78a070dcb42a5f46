#!/usr/bin/env bash
# deps.sh build|check|test - installs the Debian packages for building, for static checks or for tests.
# Does nothing if all are installed. Without root or sudo it prints the list of missing packages.
set -euo pipefail

# package, or package:command if any provider of the command is sufficient
build=(gcc:gcc make:make cmake:cmake pkg-config:pkg-config libc6-dev libuv1-dev)
check=(g++:g++ clang:clang clang-format:clang-format clang-tidy:clang-tidy python3:python3 mandoc:mandoc)
test=(libcmocka-dev libclang-rt-dev iproute2:ip man-db:man)
# Other libraries for interoperability tests, a browser and shells; tests without their package are skipped.
optional=(libssl-dev openssl:openssl python3-torch openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev slurm-wlm munge openssh-client openssh-server
    chromium:chromium zsh:zsh fish:fish)

case "${1-}" in
build) required=("${build[@]}") optional=() ;;
check) required=("${build[@]}" "${check[@]}") optional=() ;;
test) required=("${build[@]}" "${check[@]}" "${test[@]}") ;;
*) echo "usage: deps.sh build|check|test" >&2 && exit 2 ;;
esac

present() { # package[:command]
    if [[ $1 == *:* ]] && command -v "${1#*:}" >/dev/null; then return; fi
    [[ $(dpkg-query -W -f '${db:Status-Status}' "${1%%:*}" 2>/dev/null) == installed* ]]
}

missing() { # packages: prints those that are not installed
    local package
    for package in "$@"; do
        present "$package" || echo "${package%%:*}"
    done
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq -y install \
        --no-install-recommends "$@" >/dev/null
}

mapfile -t need < <(missing "${required[@]}")
mapfile -t want < <(missing "${optional[@]}")
if ((${#need[@]} + ${#want[@]} == 0)); then exit 0; fi

if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
    if ((${#want[@]})); then echo "deps: optional packages not installed: ${want[*]}" >&2; fi
    if ((${#need[@]} == 0)); then exit 0; fi
    echo "deps: packages are missing; as root, run:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${need[*]}" >&2
    exit 1
fi

as_root apt-get -o DPkg::Lock::Timeout=300 -qq update || echo "deps: apt-get update failed" >&2
if ((${#need[@]})); then
    echo "deps: installing ${need[*]}"
    install_packages "${need[@]}"
fi
for package in "${want[@]}"; do
    echo "deps: installing $package (optional)"
    install_packages "$package" || echo "deps: $package cannot be installed; tests that need it will be skipped" >&2
done
