import TestSupport
import Testing

extension RealMounts {
    /// Programs that know nothing of object stores do their work in a mount as they do elsewhere.
    @Suite struct OrdinaryPrograms {
        @Test(.timeLimit(.minutes(5)))
        func copyingATreeInAndOutKeepsEveryByteModeAndTime() async throws {
            try await withMount { world, _ in
                try await world.sh("make_tree $T/tree; cp -a $T/tree tree; same $T/tree tree", deadline: .seconds(90))
                try await world.sh("cp -a tree $T/out; same $T/tree $T/out")
                try await world.outside("compare", world.scratch.path("tree"), "tree/")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func tarPacksAndUnpacksATree() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    make_tree $T/tree
                    mkdir in
                    tar --format=posix -C $T/tree -cf - . | tar -C in -xpf -
                    tar --format=posix -C $T/tree -cf $T/tree.tar . && tar -C in -df $T/tree.tar
                    mkdir $T/out
                    tar --format=posix -C in -cf - . | tar -C $T/out -xpf -
                    same $T/tree $T/out
                    tar -czf packed.tgz -C in . && tar -tzf packed.tgz >/dev/null
                    """, deadline: .seconds(150))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func rsyncTransfersNothingTheSecondTime() async throws {
            try await withMount { world, _ in
                try await world.sh("make_tree $T/tree; rsync -a $T/tree/ tree/", deadline: .seconds(120))
                let second = try await world.sh("rsync -ai $T/tree/ tree/")
                #expect(second == "", "rsync saw a difference")
                try await world.sh("rsync -a tree/ $T/out/; same $T/tree $T/out")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func gitKeepsARepositoryInAMount() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    git config --global user.name Tester
                    git config --global user.email tester@example.com
                    make_tree $T/tree
                    git init -q -b main repository
                    cp -a $T/tree/. repository/
                    cd repository
                    git add -A
                    git commit -q -m 'Everything'
                    git fsck --strict
                    test -z "$(git status --porcelain)"
                    printf 'changed\\n' >>Package.swift
                    git commit -q -a -m 'A change'
                    git checkout -q -b other HEAD~1
                    git merge -q main
                    git gc -q
                    git fsck --strict
                    test "$(git log --oneline | wc -l)" = 2
                    """, deadline: .seconds(150))
                try await world.sh(
                    """
                    git clone -q repository $T/clone
                    git clone -q $T/clone again
                    diff -r --no-dereference --exclude=.git again $T/clone
                    """)
            }
        }

        @Test(.rule("object.plain"), .timeLimit(.minutes(5)))
        func namesAreMadeMovedListedAndRemoved() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    mkdir -p a/b/c
                    printf one >a/b/c/one
                    printf two >a/two
                    ln -s two a/link
                    test "$(find . | sort | tr '\\n' ' ')" = '. ./a ./a/b ./a/b/c ./a/b/c/one ./a/link ./a/two '
                    test "$(cat a/link a/b/c/one)" = twoone
                    ls -l a | grep -q ' link -> two$'
                    mv a/b/c/one a/b/moved
                    mv a/b a/d
                    test "$(cat a/d/moved)" = one
                    test ! -e a/b
                    cp a/two a/d/two && cmp a/two a/d/two
                    rmdir a/d/c
                    refuses rmdir a/d
                    rm -r a
                    test -z "$(ls -A)"
                    """)
                #expect(try await world.outside("keys") == "", "something is left in the bucket")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func editorsSaveFiles() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    seq 1 5000 >text
                    sed -i 's/^42$/forty-two/' text
                    ex -s -c '%s/^43$/forty-three/' -c 'x' text
                    ex -s -c 'set backup writebackup' -c '$d' -c 'wq' text
                    test "$(sed -n '42,43p' text | tr '\\n' ' ')" = 'forty-two forty-three '
                    test "$(tail -n 1 text)" = 4999
                    perl -pi.orig -e 's/^44$/forty-four/' text
                    grep -q '^forty-four$' text && grep -q '^44$' text.orig
                    test -z "$(find . -name '*.swp')"
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func pythonRunsAndCachesItsBytecode() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    mkdir package
                    printf 'def answer():\\n    return 42\\n' >package/__init__.py
                    env -u PYTHONDONTWRITEBYTECODE "$PYTHON" -c 'import package; assert package.answer() == 42'
                    test -n "$(find package/__pycache__ -name '*.pyc')"
                    "$PYTHON" -c 'import package; assert package.answer() == 42'
                    """)
            }
        }

        @Test(.rule("attr.stored", "attr.mtime"), .timeLimit(.minutes(5)))
        func modesOwnersAndTimesAreSetAndStay() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    printf x >file
                    chmod 640 file
                    touch -d '1999-12-31 23:59:59.123456789 UTC' file
                    test "$(stat -c '%a %.9Y' file)" = '640 946684799.123456789'
                    mkdir -m 750 directory
                    test "$(stat -c %a directory)" = 750
                    chmod 711 directory
                    install -m 755 file installed
                    test "$(stat -c '%a %h %F' installed directory | tr '\\n' ' ')" = \
                        '755 1 regular file 711 2 directory '
                    """)
                try await world.unmount()
                try await world.mount()
                try await world.sh(
                    """
                    test "$(stat -c '%a %.9Y' file)" = '640 946684799.123456789'
                    test "$(stat -c %a directory installed | tr '\\n' ' ')" = '711 755 '
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func fioVerifiesWhatItWroteAtRandom() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    fio --name=random --filename=file --rw=randwrite --bs=4k-64k --size=24m --verify=crc32c \
                        --ioengine=psync --randseed=7 --fallocate=none --end_fsync=1 --output=$T/fio
                    fio --name=random --filename=file --rw=randwrite --bs=4k-64k --size=24m --verify=crc32c \
                        --ioengine=psync --randseed=7 --fallocate=none --verify_only --output=$T/fio
                    """, deadline: .seconds(120))
            }
        }

        @Test(.rule("statfs"), .timeLimit(.minutes(5)))
        func dfShowsRoomAndTheKindOfFileSystemWithoutAsking() async throws {
            try await withMount { world, store in
                let cost = try await store.requests {
                    let line = try await world.sh("df -B1 --output=fstype,source,avail . | tail -n 1")
                    let words = line.split(separator: " ")
                    #expect(words.first == "fuse.pailfs" && words.dropFirst().first == "s3://pail")
                    #expect(words.last.flatMap { Int64($0.filter(\.isNumber)) } ?? 0 > 1 << 40)
                }
                #expect(cost.areWithin([:]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func mountOfEightAndFstabSpellingIsUnderstood() async throws {
            try await withStore { world, _ in
                let options = "rw,nosuid,nodev,noatime,_netdev," + world.options([])
                let outcome = try await world.pailfs([world.bucket.url, world.mountpoint, "-o", options])
                #expect(outcome.succeeded, "\(outcome)")
                try await world.sh("printf x >file; test \"$(cat file)\" = x; cd /; \(Programs.pailfs) unmount $M")
                #expect(!world.isMounted)
            }
        }
    }
}
