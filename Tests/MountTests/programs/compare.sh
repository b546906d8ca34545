# shellcheck shell=bash
# Sourced by the shell scripts of the mount tests.

# manifest DIRECTORY: every entry with type, mode, size, modification time and link target, in a fixed order.
manifest() {
    (
        cd "$1" || exit
        find . -mindepth 1 \
            \( -type d -printf '%P d %m %T@\n' \) -o \
            \( -type l -printf '%P l %l\n' \) -o \
            -printf '%P %y %m %s %T@\n' | sort
    )
}

# same A B: fails, and shows the difference, unless both trees have the same names, bytes, modes and times.
same() {
    diff --recursive --no-dereference "$1" "$2"
    diff <(manifest "$1") <(manifest "$2")
}

# make_tree DIRECTORY: some 170 real source files, and what else a tree can hold. Not all of Sources: the time of a test, and so
# its deadline, must not grow with the product.
make_tree() {
    local root
    root=$(dirname "${BASH_SOURCE[0]}")/../../..
    mkdir -p "$1/empty directory" "$1/deep/er/still"
    mkdir "$1/Sources"
    cp -a "$root"/Sources/{Basics,FileSystem,FuseBridge,Metadata} "$1/Sources/"
    cp -a "$root/Package.swift" "$1/"
    printf '#!/bin/sh\nexit 0\n' >"$1/run me"
    chmod 751 "$1/run me"
    printf 'secret\n' >"$1/deep/private"
    chmod 600 "$1/deep/private"
    : >"$1/deep/er/nothing"
    printf 'x' >"$1/deep/er/still/ümläut %41 ~"
    head -c 300000 /dev/urandom >"$1/deep/er/still/bytes"
    ln -s ../Package.swift "$1/deep/link"
    ln -s 'nowhere at all' "$1/dangling"
    touch -d '2001-02-03 04:05:06.789012345' "$1/deep/private"
    chmod 700 "$1/deep"
    # Long ago: rsync does not see that a directory it has made in this second got another time.
    find "$1" -type d -exec touch -d '2002-03-04 05:06:07.890123456' {} +
}

# refuses COMMAND...: succeeds when the command fails; `! command` would not stop a script under `set -e`.
refuses() {
    if "$@" 2>/dev/null; then
        printf 'this should have failed: %s\n' "$*" >&2
        return 1
    fi
}

set -o errtrace
trap 'printf "failed: %s\n" "$BASH_COMMAND" >&2' ERR
