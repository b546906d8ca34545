import Foundation
import TestSupport
import Testing

private let takesLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil

extension RealMounts {
    /// Programs that are particular about what a file system does: data bases, builds, copies with every attribute.
    @Suite struct RealPrograms {
        @Test(.timeLimit(.minutes(takesLong ? 60 : 4)))
        func sqliteKeepsADatabaseWithItsRollbackJournal() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os, sqlite3
                    base = sqlite3.connect("base", isolation_level=None)
                    assert base.execute("PRAGMA journal_mode").fetchone() == ("delete",)
                    base.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, note TEXT)")
                    count = \(takesLong ? 10_000 : 200)
                    with_rollback = 0
                    base.execute("BEGIN")
                    base.executemany("INSERT INTO account VALUES (?, 1000, ?)", ((n, "x" * 50) for n in range(200)))
                    base.execute("COMMIT")
                    for number in range(count):
                        base.execute("BEGIN IMMEDIATE")
                        base.execute("UPDATE account SET balance = balance - 7 WHERE id = ?", (number * 31 % 200,))
                        base.execute("UPDATE account SET balance = balance + 7 WHERE id = ?", (number * 17 % 200,))
                        if number % 10 == 3:
                            base.execute("ROLLBACK")
                            with_rollback += 1
                        else:
                            base.execute("INSERT INTO account VALUES (?, 0, ?)", (1000 + number, str(number) * 20))
                            base.execute("COMMIT")
                    other = sqlite3.connect("base")
                    for each in base, other:
                        assert each.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                        assert each.execute("SELECT sum(balance) FROM account").fetchone() == (200_000,)
                        wanted = 200 + count - with_rollback
                        assert each.execute("SELECT count(*) FROM account").fetchone() == (wanted,)
                    other.close()
                    base.execute("VACUUM")
                    base.close()
                    assert os.listdir(".") == ["base"], os.listdir(".")
                    """, deadline: takesLong ? .seconds(3000) : .seconds(200))
                try await world.unmount()
                try await world.mount(cache: "another")
                try await world.python(
                    """
                    import sqlite3
                    base = sqlite3.connect("base")
                    assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                    assert base.execute("SELECT sum(balance) FROM account").fetchone() == (200_000,)
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func rsyncWithEveryAttributeAndChecksumsTransfersNothingTheSecondTime() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    make_tree $T/tree
                    setfattr -n user.colour -v blue "$(find $T/tree -type f | head -n 1)" || true
                    rsync -aHAX --checksum $T/tree/ tree/
                    test -z "$(rsync -aHAXi --checksum $T/tree/ tree/)"
                    printf changed >>$T/tree/Package.swift
                    test "$(rsync -aHAXi --checksum --inplace $T/tree/ tree/ | grep -c '^>f')" = 1
                    test -z "$(rsync -aHAXi --checksum --delete $T/tree/ tree/)"
                    same $T/tree tree
                    """, deadline: .seconds(150))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func unzipUnpacksATree() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    make_tree $T/tree
                    find $T/tree -type l -delete
                    (cd $T/tree && "$PYTHON" -m zipfile -c $T/tree.zip .)
                    mkdir in && unzip -q $T/tree.zip -d in
                    diff -r $T/tree in
                    cp $T/tree.zip . && unzip -tqq tree.zip
                    """, deadline: .seconds(90))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func makeBuildsOnlyWhatChanged() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    mkdir source && cd source
                    printf 'int twice(int);\\n' >twice.h
                    printf '#include "twice.h"\\nint twice(int n) { return 2 * n; }\\n' >twice.c
                    printf '#include <stdio.h>\\n#include "twice.h"\\nint main(void) { printf("%%d\\\\n", twice(21)); }\\n' >main.c
                    printf 'program: main.o twice.o\\n\\tgcc -o $@ $^\\nmain.o twice.o: twice.h\\n' >Makefile
                    printf 'clean:\\n\\trm -f program *.o\\n' >>Makefile
                    make -s CC=gcc && test "$(./program)" = 42
                    make CC=gcc | grep -q 'up to date'
                    make -s clean CC=gcc
                    make -s -j4 CC=gcc CFLAGS=-g && test "$(./program)" = 42
                    touch -d '1 minute' twice.c
                    test "$(make CC=gcc | grep -c twice.c)" = 1
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func toolsWriteInPlaceSparselyAndSortOnTheMount() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    head -c 3000000 /dev/urandom >$T/model
                    cp $T/model file
                    head -c 400000 /dev/urandom >$T/more
                    for file in $T/model file; do
                        dd if=/dev/zero of=$file bs=10000 seek=7 count=13 conv=notrunc status=none
                        dd if=/dev/zero of=$file bs=1 seek=2999999 count=100 conv=notrunc,fsync status=none
                        dd if=$T/more of=$file bs=64k skip=1 count=3 oflag=append conv=notrunc status=none
                        fallocate -p -o 100000 -l 500000 $file
                        fallocate -z -o 700001 -l 99999 $file
                    done
                    cmp $T/model file
                    cp --sparse=always file sparse && cmp $T/model sparse
                    truncate -s 2000000 holes && printf end >>holes
                    cp --sparse=always holes $T/holes && cmp holes $T/holes
                    cp --sparse=auto $T/holes again && cmp holes again
                    seq 1 200000 | shuf --random-source=$T/model >numbers
                    mkdir tmp
                    sort -n -S 300k -T tmp --parallel=2 numbers -o numbers
                    seq 1 200000 | cmp - numbers
                    test -z "$(ls -A tmp)"
                    """, deadline: .seconds(100))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func tailFollowsAFileThatGrows() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    printf 'first\\n' >log
                    timeout 60 tail -n +1 -f --sleep-interval=0.05 log >$T/seen &
                    pid=$!
                    for word in second third; do
                        printf '%s\\n' $word >>log
                        until grep -q $word $T/seen; do sleep 0.05; done
                    done
                    mv log log.1 && printf 'fourth\\n' >>log.1
                    until grep -q fourth $T/seen; do sleep 0.05; done
                    kill $pid; wait $pid || true
                    test "$(cat $T/seen)" = "$(cat log.1)"
                    """)
            }
        }

        @Test(.rule("lock"), .timeLimit(.minutes(5)))
        func locksHoldAmongTheProcessesOfThisHost() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    printf 0 >counter
                    add() { for _ in $(seq 20); do flock lock sh -c 'n=$(cat counter); echo $((n + 1)) >counter'; done; }
                    add & add & add & wait
                    test "$(cat counter)" = 60
                    """)
                try await world.python(
                    """
                    import fcntl, os
                    file = open("counter", "r+")
                    fcntl.lockf(file, fcntl.LOCK_EX, 10, 5)
                    if os.fork() == 0:
                        try: fcntl.lockf(open("counter", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 14)
                        except BlockingIOError: os._exit(0)
                        os._exit(1)
                    assert os.wait()[1] == 0
                    """)
                // Another mount of the bucket stands for another host.
                let other = try world.scratch.makeDirectory("other")
                let mounted = try await world.pailfs(
                    ["mount", world.bucket.url, other, "-o", world.options([], cache: "another")])
                #expect(mounted.succeeded, "\(mounted)")
                try await world.sh(
                    """
                    exec 3<lock; flock --exclusive 3
                    refuses flock --nonblock lock true
                    flock --nonblock $T/other/lock true
                    """)
                #expect(try await world.pailfs(["unmount", other]).succeeded)
            }
        }
    }
}
