import Foundation
import Settings
import TestSupport
import Testing

/// What options do, shown on a mount.
struct OptionEffect: Sendable, CustomTestStringConvertible {
    let options: [String]
    let show: @Sendable () async throws -> Void

    init(_ options: String..., show: @escaping @Sendable () async throws -> Void) {
        (self.options, self.show) = (options, show)
    }

    var testDescription: String { options.joined(separator: ", ") }
}

extension RealMountsAlone {
    /// Every option of the table is tested by what it does; these by times or by how many requests there are.
    @Suite struct OptionEffects {
        @Test(.timeLimit(.minutes(5)), arguments: OptionEffect.ofMachine + OptionEffect.ofRequests)
        func anOptionDoesWhatItSays(_ effect: OptionEffect) async throws { try await effect.show() }

        /// Options that a test with another subject shows, by its name.
        static let elsewhere = [
            "profile": "fiveCommandsAreEnough", "credentials-file": "theFileOfKeysMountsEachStoreAtBoot",
            "names": "rawNamesHideWhatCannotBeShownAndListIt",
            "ttl": "optionsChangeWhileMountedAndStayChangedForTheNextProcess",
            "log-level": "optionsChangeWhileMountedAndStayChangedForTheNextProcess",
            "cache-size": "aFileLargerThanTheCacheIsWrittenAndReadWithinIt",
            "keeper": "programsWaitUntilTheMountIsTakenBack",
            "patience": "afterItsPatienceProgramsGetErrorsAndWhatIsAcknowledgedStays",
            "term-wait": "aMountInUseEndsAtOnceWhenItIsAskedAgain",
            "metrics": "figuresAreServedToCollectorsAndAsAnAttributeWhateverOthersSend",
        ]

        @Test func noOptionIsWithoutATest() throws {
            let effects = OptionEffect.ofView + OptionEffect.ofMachine + OptionEffect.ofRequests + OptionEffect.ofStores
            let tested = effects.flatMap(\.options) + Self.elsewhere.keys
            let listed = OptionTable.options.filter(\.isListed).map(\.name)
            #expect(Set(listed).symmetricDifference(tested).isEmpty, "each has a test, and each test has its option")
            let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            let sources = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
                .filter { $0.pathExtension == "swift" }.map { try String(contentsOf: $0, encoding: .utf8) }
            for (option, test) in Self.elsewhere {
                let has = sources.contains { $0.contains("func \(test)(") && $0.contains("\(option)=") }
                #expect(has, "no test \(test) gives \(option)")
            }
        }
    }
}

extension RealMounts {
    /// The same of options that show in names, bytes or requests, whatever runs beside them.
    @Suite struct OptionEffects {
        @Test(
            .rule("statfs", "symlink", "conflict.overwrite", "attr.exact", "bucket", "filter", "close.callback"),
            .timeLimit(.minutes(5)), arguments: OptionEffect.ofView + OptionEffect.ofStores)
        func anOptionDoesWhatItSays(_ effect: OptionEffect) async throws { try await effect.show() }
    }
}

/// What programs see.
extension OptionEffect {
    static let ofView = [
        OptionEffect("ro") {
            try await withMount("ro") { world, _ in
                let refused = try await world.attempt("LC_ALL=C touch file")
                #expect(!refused.succeeded && refused.errors.contains("Read-only file system"), "\(refused)")
            }
        },
        asOf,
        OptionEffect("uid", "gid", "umask") {
            try await withMount("uid=1234", "gid=2345", "umask=027") { world, _ in
                try await putFile(world, "a/file")
                #expect(try await world.sh("stat -c '%u %g %a' a a/file") == "1234 2345 750\n1234 2345 640\n")
            }
        },
        OptionEffect("file-mode", "dir-mode") {
            try await withMount("file-mode=604", "dir-mode=705", "umask=077") { world, _ in
                try await putFile(world, "a/file")
                #expect(try await world.sh("stat -c %a a a/file") == "705\n604\n")
            }
        },
        OptionEffect("allow_other") {
            for isAllowed in [false, true] {
                try await withStore { world, _ in
                    try await world.mount(isAllowed ? ["allow_other"] : [])
                    let line = try String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8)
                        .split(separator: "\n").first { $0.contains(" \(world.mountpoint) ") }
                    #expect(line?.contains("allow_other") == isAllowed)
                    guard Machine.isRoot else { return }
                    let other = try await world.attempt(
                        "printf x >file; cd /; chmod 755 $T; setpriv --reuid=65534 --clear-groups cat $M/file")
                    #expect(other.succeeded == isAllowed, "\(other)")
                }
            }
        },
        OptionEffect("allow_root") {
            try await withStore { world, _ in
                try await world.mount(["allow_root"])
                let line = try String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8)
                    .split(separator: "\n").first { $0.contains(" \(world.mountpoint) ") }
                // The kernel admits every user, and libfuse refuses all but root and the owner.
                #expect(line?.contains("allow_other") == true)
                guard Machine.isRoot else { return }
                try await world.sh("printf x >file; test \"$(cat file)\" = x")
                let other = try await world.attempt(
                    "cd /; chmod 755 $T; setpriv --reuid=65534 --clear-groups cat $M/file")
                #expect(!other.succeeded && other.errors.contains("Permission denied"), "\(other)")
            }
        },
        OptionEffect("negative-ttl") {
            for (time, isSeen) in [("0", true), ("1h", false)] {
                try await withMount("ttl=1h", "negative-ttl=\(time)") { world, _ in
                    try await putFile(world, "d/known")
                    try await world.sh("ls d; ! test -e d/new")
                    try await putFile(world, "d/new")
                    let found = try await world.attempt("test -e d/new")
                    #expect(found.succeeded == isSeen, "negative-ttl=\(time)")
                }
            }
        },
        OptionEffect("include", "exclude") {
            let options = ["exclude=/top/secret", "include=keep.tmp", "exclude=*.tmp", "exclude=build/"]
            try await withStore { world, _ in
                try await world.mount(options)
                for key in ["a", "b.tmp", "keep.tmp", "top/secret", "other/secret", "x/build/y", "x/z"] {
                    try await putFile(world, key)
                }
                let seen = "./a\n./keep.tmp\n./other\n./other/secret\n./top\n./x\n./x/z\n"
                #expect(try await world.sh("find . -mindepth 1 | LC_ALL=C sort") == seen)
                try await world.sh(
                    """
                    ! test -e b.tmp; ! test -e x/build/y
                    for act in 'touch c.tmp' 'mkdir x/build' 'mv a a.tmp' 'ln -s a l.tmp' 'rm b.tmp'; do
                        ! LC_ALL=C $act 2>$T/refused; grep -qE 'not permitted|No such file' $T/refused
                    done
                    touch x/build2 build  # a file may have the name
                    ! LC_ALL=C rmdir top 2>$T/refused; grep -q 'not empty' $T/refused
                    mv x y
                    """)
                let keys = try await world.outside("keys").split(separator: "\n")
                #expect(keys.contains("y/build/y") && keys.contains("top/secret") && !keys.contains("c.tmp"), "\(keys)")
            }
        },
        OptionEffect("max-size") {
            try await withMount("max-size=1MiB") { world, _ in
                try await world.sh("head -c 2097152 /dev/zero >$T/long")
                try await world.outside("put", "long", world.scratch.path("long"))
                try await world.sh(
                    """
                    cat long | wc -c | grep -qx 2097152
                    head -c 1048576 /dev/zero >whole
                    ! LC_ALL=C cp $T/long copy 2>$T/refused; grep -q 'File too large' $T/refused
                    ! LC_ALL=C cp long copy2 2>$T/refused; grep -q 'File too large' $T/refused
                    ! truncate -s 1048577 whole
                    truncate -s 1500000 long
                    printf x | dd of=long bs=1 seek=1200000 conv=notrunc status=none
                    ! truncate -s 1500001 long
                    mv long moved
                    """)
            }
        },
        OptionEffect("buckets") {
            for provider in [Provider.s3, .oss, .cos, .kodo] {
                try await provider.withWorld { world in
                    let account = try World(scratch: world.scratch, bucket: world.bucket.account)
                    // The names of COS end with the number of the account.
                    let end =
                        provider == .cos ? world.bucket.name.split(separator: "-").last.map { "-\($0)" } ?? "" : ""
                    let new = "new-bucket" + end
                    account.expectsErrorsInLog = true
                    try await account.mount(["buckets=change"])
                    try await account.sh(
                        """
                        mkdir \(new); ls | grep -qx \(new); printf hello >\(new)/file
                        ! LC_ALL=C mkdir \(new) 2>$T/refused; grep -q 'File exists' $T/refused
                        ! LC_ALL=C mkdir No_Bucket 2>$T/refused; grep -q 'Invalid argument' $T/refused
                        ! LC_ALL=C rmdir \(new) 2>$T/refused; grep -q 'not empty' $T/refused
                        ! LC_ALL=C touch file 2>$T/refused; grep -q 'not permitted' $T/refused
                        ! LC_ALL=C mv \(new) renamed-bucket 2>$T/refused; grep -q 'not permitted' $T/refused
                        """)
                    // A request whose answer is lost has done what it says.
                    if provider == .s3 {
                        try await account.sh(
                            """
                            faults() { curl -sS --fail -T - \(world.bucket.endpoint)/_pailstore/faults <<<"$1"; }
                            faults op=CreateBucket,count=1,kind=lost-reply
                            mkdir another-bucket
                            faults op=DeleteBucket,count=1,kind=lost-reply
                            rmdir another-bucket
                            ! test -e another-bucket
                            """)
                    }
                    try await account.unmount()
                    try await account.mount(["buckets=change"], cache: "another")
                    try await account.sh(
                        """
                        test "$(cat \(new)/file)" = hello
                        rm -r \(new); ! test -e \(new); ! ls | grep -qx \(new)
                        """)
                    try await account.unmount()
                }
            }
        },
        OptionEffect("attrs") {
            try await withMount { world, _ in
                try await world.sh("printf x >file; chmod 600 file")
                try await world.unmount()
                for (attrs, mode) in [("listing", "644"), ("exact", "600")] {
                    try await world.mount(["attrs=\(attrs)"], cache: attrs)
                    #expect(try await world.sh("stat -c %a file") == "\(mode)\n")
                    try await world.unmount()
                }
            }
        },
        OptionEffect("symlinks") {
            for (symlinks, keys) in [("objects", "file\nlink.rclonelink\n"), ("metadata", "file\nlink\n")] {
                try await withMount("symlinks=\(symlinks)") { world, _ in
                    try await world.sh("printf x >file; ln -s file link; test \"$(readlink link)\" = file")
                    #expect(try await world.outside("keys") == keys)
                    try await world.unmount()
                    try await world.mount(["symlinks=off"], cache: "another")
                    let refused = "! ln -s file other 2>$T/refused; grep -q 'not permitted' $T/refused"
                    #expect(try await world.sh("ls; find . -type l; \(refused)") == keys)
                }
            }
        },
        OptionEffect("durable") {
            for (durable, closes) in [("remote", false), ("local", true)] {
                try await withStore { world, store in
                    world.expectsErrorsInLog = true
                    try await world.mount(["durable=\(durable)", "timeout=1", "retries=0"])
                    try await store.setFaults("op=PutObject,kind=status:403")
                    #expect(try await world.attempt("printf x >$T/x; cp $T/x file").succeeded == closes)
                    try await store.setFaults()
                    try await world.unmount()
                    if closes { #expect(try await world.outside("get", "file") == "x") }
                }
            }
        },
        OptionEffect("conflict") {
            let outcomes = [
                ("keep", "theirs", 2, "ESTALE"), ("overwrite", "COMMON and ours", 1, "none"),
                ("fail", "theirs", 1, "ESTALE"),
            ]
            for (conflict, content, count, error) in outcomes {
                try await withMount("conflict=\(conflict)") { world, _ in
                    world.expectsErrorsInLog = true
                    let told = try await world.python(
                        """
                        import errno, sys
                        sys.path.insert(0, "\(Programs.helper(""))")
                        from bucket import store
                        store.put_bytes("file", b"common")
                        file = open("file", "r+b", buffering=0)
                        file.write(b"COMMON and ours")
                        store.put_bytes("file", b"theirs")
                        try:
                            file.close()
                            print("none")
                        except OSError as error:
                            print(errno.errorcode[error.errno])
                        """)
                    #expect(told == "\(error)\n", "\(conflict)")
                    #expect(try await world.outside("get", "file") == content, "\(conflict)")
                    let keys = try await world.outside("keys").split(separator: "\n")
                    #expect(keys.count == count, "\(conflict): \(keys)")
                }
            }
        },
        OptionEffect("size") {
            try await withMount("size=3GiB") { world, _ in
                let size = try await world.sh("df -B1 --output=size . | tail -n 1 | tr -d ' '")
                #expect(size == "3221225472\n")
            }
        },
    ]

    /// An object that no mount has stored.
    static func putFile(_ world: World, _ key: String) async throws {
        try await world.sh("printf content >$T/put")
        try await world.outside("put", key, world.scratch.path("put"))
    }
}

/// What a mount takes of this machine, and what it tells it.
extension OptionEffect {
    static let ofMachine = [
        OptionEffect("restart") {
            try await withStore { world, _ in
                let options = world.options(["restart=no"])
                let outcome = try await world.pailfs(["mount", world.bucket.url, world.mountpoint, "-o", options])
                #expect(outcome.succeeded, "\(outcome)")
                let running = world.scratch.processes(running: Programs.pailfs)
                #expect(running.count == 1, "nobody is there to start another process")
                try await world.sh("printf x >file; test \"$(cat file)\" = x; cd /; \(Programs.pailfs) unmount $M")
            }
        },
        OptionEffect("cache-dir") {
            try await withMount { world, _ in
                try await world.unmount()
                try await world.mount(["cache-dir=\(world.scratch.path("elsewhere"))"])
                try await world.sh("head -c 1000000 /dev/urandom >file; cat file | wc -c")
                #expect(try await world.sh("find $T/elsewhere -name journal.db | wc -l") == "1\n")
            }
        },
        OptionEffect("state-dir") {
            try await withStore { world, _ in
                try await world.mount(["state-dir=\(world.scratch.path("elsewhere"))"])
                try await world.sh(
                    "printf x >file; cd $T; ls elsewhere/*/journal.db cache/*/meta.db; ! ls cache/*/journal.db")
                for place in ["elsewhere", "cache"] {
                    let directory = try await world.sh("echo $T/\(place)/*").trimmingCharacters(in: .newlines)
                    let info = try await world.pailfs(["cache", "info", directory])
                    #expect(info.output.contains("state       \(world.scratch.path("elsewhere"))/"), "\(info)")
                }
            }
        },
        OptionEffect("free-space") {
            for (space, keeps) in [("0", true), ("1024T", false)] {
                try await withMount("free-space=\(space)") { world, _ in
                    try await readFile(world, of: 8 << 20)
                    let kept = try await figure("cache_clean_bytes", world)
                    #expect((kept >= 8 << 20) == keeps, "\(space)")
                }
            }
        },
        OptionEffect("memory") {
            // With no disk to keep them on, blocks stay in memory.
            for (memory, isMuch) in [("32MiB", false), ("512MiB", true)] {
                try await withMount("free-space=1024T", "memory=\(memory)") { world, _ in
                    try await readFile(world, of: 64 << 20)
                    let held = try await figure("cache_memory_bytes", world)
                    #expect((held > 32 << 20) == isMuch, "\(held) bytes of \(memory)")
                }
            }
        },
        OptionEffect("read-ahead") {
            for (size, isAhead) in [("0", false), ("64MiB", true)] {
                try await withMount("read-ahead=\(size)") { world, store in
                    try await world.sh("head -c 33554432 /dev/urandom >$T/put")
                    try await world.outside("put", "file", world.scratch.path("put"))
                    let cost = try await store.requests {
                        try await world.python(
                            """
                            import os, time
                            file = os.open("file", os.O_RDONLY)
                            for offset in range(0, 4 << 20, 1 << 17): os.pread(file, 1 << 17, offset)
                            # What is fetched ahead of an open file arrives; that of a closed one is given up.
                            time.sleep(1)
                            """)
                    }
                    #expect((cost.received > 16 << 20) == isAhead, "\(cost.received) bytes fetched with \(size)")
                }
            }
        },
        OptionEffect("log") {
            try await withMount { world, store in
                world.expectsErrorsInLog = true
                try await world.unmount()
                try await world.mount(["log=\(world.scratch.path("another.log"))", "timeout=1", "retries=0"])
                try await putFile(world, "refused")
                try await store.setFaults("op=GetObject,kind=status:403")
                _ = try await world.attempt("cat refused")
                try await store.setFaults()
                try await world.sh("grep -q refused $T/another.log")
            }
        },
        OptionEffect("log-format") {
            try await withMount("log-format=json", "timeout=1", "retries=0") { world, store in
                world.expectsErrorsInLog = true
                try await putFile(world, "a \"name\"")
                try await store.setFaults("op=GetObject,kind=status:403")
                _ = try await world.attempt("cat 'a \"name\"'")
                try await store.setFaults()
                try await world.python(
                    """
                    import json, os
                    with open(os.environ["T"] + "/pailfs.log") as log: lines = [json.loads(line) for line in log]
                    assert all({"time", "level", "message"} <= line.keys() for line in lines), lines
                    assert lines[0]["message"] == "mounted" and lines[0]["source"].startswith("s3://"), lines[0]
                    failed = [line for line in lines if line["message"] == "operation failed"]
                    assert failed and failed[0]["key"] == 'a "name"' and failed[0]["level"] == "warning", lines
                    """)
            }
        },
    ]

    static func readFile(_ world: World, of size: Int) async throws {
        try await world.sh("head -c \(size) /dev/urandom >$T/put")
        try await world.outside("put", "file", world.scratch.path("put"))
        try await world.sh("cmp file $T/put")
    }

    static func figure(_ name: String, _ world: World) async throws -> Int {
        let text = try await world.sh(
            "getfattr --only-values -n user.pailfs.stats . | grep '^pailfs_\(name) '")
        return try #require(text.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) })
    }
}
