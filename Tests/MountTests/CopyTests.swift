import TestSupport
import Testing

extension RealMounts {
    /// A copy within the mount is made by the store; no byte of it passes through the host (SEMANTICS, copy_file_range).
    @Suite struct Copies {
        /// `big` and `small`, which this machine has nothing of but their names.
        private func withObjects(_ options: String..., body: (World, Store) async throws -> Void) async throws {
            try await withMount("part-size=5MiB") { world, store in
                try await world.sh(
                    """
                    head -c 24000000 /dev/urandom >$T/big; cp $T/big big
                    head -c 1000 /dev/urandom >$T/small; cp $T/small small
                    """)
                try await world.unmount()
                try await world.mount(["part-size=5MiB", "ttl=600"] + options, cache: "another")
                try await world.sh("ls -l >/dev/null")
                try await body(world, store)
            }
        }

        @Test(
            .rule("copy.range"), .timeLimit(.minutes(5)),
            arguments: ["cp", "cp --reflink=auto", "cp -p"])
        func cpCostsOneRequest(_ command: String) async throws {
            try await withObjects { world, store in
                for name in ["small", "big"] {
                    // Stored headers of a file never seen are what cp -p asks for.
                    let head = command == "cp -p" ? 2 : 1
                    // A copy of what is made of parts has another ETag than its source. A server that nothing is known of
                    // is asked whether the source is still that version, and, the first time, for the copy's ETag.
                    let looks = name == "big" ? 2 : 0
                    let cost = try await store.requests { try await world.sh("\(command) \(name) \(name)-copy") }
                    #expect(
                        cost.areWithin(["CopyObject": 1, "HeadObject": head + looks]), "\(command) \(name): \(cost)")
                    #expect(cost.counts["CopyObject"] == 1)
                    let again = try await store.requests { try await world.sh("\(command) small \(name)-copy") }
                    #expect(again.areWithin(["CopyObject": 1, "HeadObject": head]), "over an object: \(again)")
                    try await world.sh("cmp $T/small \(name)-copy; \(command) \(name) \(name)-copy")
                    try await world.sh("cmp $T/\(name) \(name)-copy; cmp $T/\(name) \(name)")
                }
                try await world.unmount()
                try await world.mount(cache: "third")
                try await world.sh("cmp $T/big big-copy; cmp $T/small small-copy")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aChangedCopySendsOnlyWhatChanged() async throws {
            try await withObjects { world, store in
                let cost = try await store.requests {
                    try await world.python(
                        """
                        import os
                        source, copy = os.open("big", os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT)
                        at = 0
                        while count := os.copy_file_range(source, copy, 7_000_000, at, at): at += count
                        assert at == os.fstat(copy).st_size == 24_000_000
                        os.pwrite(copy, b"changed", 11_000_000)
                        assert os.pread(copy, 9, 10_999_999)[1:8] == b"changed"
                        os.close(copy)
                        """)
                }
                #expect(cost.counts["UploadPart"] == 1, "\(cost)")
                #expect(cost.counts["UploadPartCopy", default: 0] >= 1, "\(cost)")
                #expect(cost.counts["PutObject"] == nil, "\(cost)")
                try await world.sh(
                    """
                    printf changed | dd of=$T/big bs=1 seek=11000000 conv=notrunc status=none
                    cmp $T/big copy
                    """)
                try await world.outside("get", "copy")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: ["durable=remote", "durable=local"])
        func aCopyOutlivesItsSource(_ durable: String) async throws {
            try await withObjects(durable) { world, _ in
                try await world.python(
                    """
                    import os, shutil

                    def copy(name):
                        "A copy that is not closed yet."
                        source, copy = os.open("small", os.O_RDONLY), os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
                        assert os.copy_file_range(source, copy, 4096, 0, 0) == 1000
                        os.close(source)
                        return copy

                    def compare(copy, name, wanted):
                        assert os.pread(copy, 4096, 0) == wanted
                        os.close(copy)
                        assert open(name, "rb").read() == wanted

                    first = open("small", "rb").read()
                    overwritten = copy("overwritten")
                    with open("small", "r+b") as file: file.write(b"other")
                    compare(overwritten, "overwritten", first)
                    second = b"other" + first[5:]
                    changed = copy("changed")
                    os.chmod("small", 0o604)
                    compare(changed, "changed", second)
                    moved = copy("moved")
                    os.rename("small", "elsewhere")
                    compare(moved, "moved", second)
                    os.mkdir("directory")
                    os.rename("elsewhere", "directory/small")
                    shutil.copyfile("directory/small", "small")
                    inside = os.open("directory/small", os.O_RDONLY)
                    copied = os.open("inside", os.O_RDWR | os.O_CREAT)
                    assert os.copy_file_range(inside, copied, 4096, 0, 0) == 1000
                    os.rename("directory", "renamed")
                    compare(copied, "inside", second)
                    replaced = copy("replaced")
                    open("new", "wb").write(b"new")
                    os.rename("new", "small")
                    compare(replaced, "replaced", second)
                    shutil.copyfile("replaced", "small")
                    unlinked = copy("unlinked")
                    os.unlink("small")
                    compare(unlinked, "unlinked", second)
                    gone = copy_gone = os.open("gone", os.O_RDWR | os.O_CREAT)
                    source = os.open("unlinked", os.O_RDONLY)
                    assert os.copy_file_range(source, gone, 4096, 0, 0) == 1000
                    os.unlink("gone")
                    os.close(gone)
                    assert not os.path.exists("gone")
                    """)
                try await world.unmount()
                let keys = try await world.outside("keys")
                #expect(
                    Set(keys.split(separator: "\n").map(String.init)) == [
                        "big", "changed", "inside", "moved", "overwritten", "renamed/", "renamed/small", "replaced",
                        "unlinked",
                    ])
                try await world.mount(cache: "third")
                try await world.sh("cmp overwritten $T/small; cmp changed inside; cmp moved unlinked")
            }
        }

        @Test(.rule("copy.range"), .timeLimit(.minutes(5)))
        func rangesThatMoveAndFilesNotStoredYetAreCopiedAllTheSame() async throws {
            try await withObjects { world, _ in
                try await world.python(
                    """
                    import os
                    data = open("small", "rb").read()
                    small, copy = os.open("small", os.O_RDWR), os.open("copy", os.O_RDWR | os.O_CREAT)
                    assert os.copy_file_range(small, copy, 100, 50, 10) == 100
                    assert os.pread(copy, 999, 0) == bytes(10) + data[50:150]
                    assert os.copy_file_range(small, small, 100, 0, 500) == 100
                    data = data[:500] + data[:100] + data[600:]
                    assert os.pread(small, 4096, 0) == data
                    dirty = os.open("dirty", os.O_RDWR | os.O_CREAT)
                    os.write(dirty, b"not stored yet")
                    os.ftruncate(copy, 0)
                    assert os.copy_file_range(dirty, copy, 4096, 0, 0) == 14
                    assert os.pread(copy, 999, 0) == b"not stored yet"
                    for file in small, copy, dirty: os.close(file)
                    assert open("small", "rb").read() == data and open("copy").read() == "not stored yet"
                    """)
            }
        }
    }
}
