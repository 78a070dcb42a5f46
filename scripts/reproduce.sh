#!/bin/sh
# Builds the library and the tool twice, in directories with different names, and compares what is installed.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quietly() {
    "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

for tree in "$work/a" "$work/another/directory"; do
    mkdir -p "$tree"
    git -C "$here" archive HEAD | tar -x -C "$tree"
    quietly cmake -S "$tree" -B "$tree/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr
    quietly cmake --build "$tree/build" -j "$(nproc)"
    DESTDIR="$tree/root" quietly cmake --install "$tree/build"
    (cd "$tree/root" && find . -type f -exec sha256sum {} + | sort -k 2) >"$tree/sums"
done
diff "$work/a/sums" "$work/another/directory/sums"
echo "$(wc -l <"$work/a/sums") installed files are the same in both builds"
