import Foundation
import Glibc
import Testing

extension RealMounts {
    /// `pailfs cp` with local paths.
    @Suite struct LocalCopies {
        private func copy(_ arguments: String..., in world: World) async throws -> Outcome {
            try await world.pailfs(["cp"] + arguments + ["-o", world.options([])])
        }

        /// A command line for a shell, with `@` for the bucket's URL.
        private func line(_ text: String, in world: World) -> String {
            "'\(Programs.pailfs)' cp -o '\(world.options([]))' "
                + text.replacingOccurrences(of: "@", with: world.bucket.url)
        }

        /// What a mount shows of an object that was copied has the file's time and mode, and the other way round.
        @Test(.timeLimit(.minutes(5)), arguments: Provider.allCases)
        func aTreeGoesIntoTheBucketAndComesBack(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.sh(
                    """
                    mkdir -p $T/tree/d/e $T/tree/none
                    echo content >$T/tree/a.txt; : >$T/tree/d/empty; head -c 20000000 /dev/urandom >$T/tree/d/e/big
                    chmod 640 $T/tree/a.txt; touch -d '2001-02-03 04:05:06.5' $T/tree/a.txt $T/tree/d/e/big
                    \(line("-r $T/tree @/p", in: world))
                    \(line("-r @/p $T/back", in: world))
                    diff -r $T/tree $T/back
                    for file in a.txt d/e/big; do
                        test "$(stat -c '%a %y' $T/tree/$file)" = "$(stat -c '%a %y' $T/back/$file)"
                    done
                    """)
                #expect(try await world.outside("get", "p/a.txt") == "content\n")
                try await world.mount(["attrs=exact"])
                try await world.sh(
                    """
                    diff -r $T/tree p
                    test "$(stat -c '%a %y' p/a.txt)" = "$(stat -c '%a %y' $T/tree/a.txt)"
                    \(line("$T/tree/a.txt p/d/", in: world)); cmp p/d/a.txt $T/tree/a.txt
                    \(line("p/d/e/big $T/again", in: world)); cmp $T/again $T/tree/d/e/big
                    """)
                try await world.unmount()
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .kodo])
        func standardInputAndOutput(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.sh(
                    """
                    head -c 30000000 /dev/urandom >$T/big
                    cat $T/big | \(line("- @/big", in: world))
                    \(line("@/big -", in: world)) | cmp - $T/big
                    echo small | \(line("- @/small", in: world))
                    test "$(\(line("@/small -", in: world)))" = small
                    for dry in '' --dry-run; do
                        if echo other | \(line("-n $dry - @/small", in: world)) 2>$T/errors; then exit 1; fi
                        grep -q 'small already exists; leave out -n' $T/errors
                    done
                    test "$(\(line("@/small -", in: world)))" = small
                    : | \(line("- @/empty", in: world))
                    test "$(\(line("@/empty -", in: world)) | wc -c)" = 0
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5))) func patternsAndSeveralSourcesGoIntoADirectory() async throws {
            try await withStore { world, _ in
                try await world.sh(
                    """
                    mkdir $T/in; for name in a.gz b.gz c.txt; do echo $name >$T/in/$name; done
                    \(line("$T/in/a.gz $T/in/b.gz $T/in/c.txt @/logs/", in: world))
                    \(line("'@/logs/*.gz' $T/out/", in: world))
                    test "$(ls $T/out | tr '\\n' ' ')" = 'a.gz b.gz '
                    test "$(\(line("'@/logs/a*' -", in: world)))" = a.gz
                    \(line("$T/in/a.gz @/dir1/a", in: world)); \(line("$T/in/b.gz '@/dir[1]/a'", in: world))
                    \(line("-r '@/dir[1]/' $T/literal", in: world)); test "$(cat $T/literal/a)" = b.gz
                    \(line("-r '@/dir[1]' $T/same", in: world)); test "$(cat $T/same/a)" = b.gz
                    cd $T/in; \(line("-r . @/dots/", in: world))
                    mkdir -p $T/top/below; echo a >$T/top/a; cd $T/top/below; \(line("-r .. @/up/", in: world))
                    """)
                let keys = try await world.outside("keys").split(separator: "\n")
                #expect(keys.filter { $0.hasPrefix("dots/") } == ["dots/a.gz", "dots/b.gz", "dots/c.txt"])
                #expect(keys.filter { $0.hasPrefix("up/") } == ["up/top/a", "up/top/below/"])
                let none = try await copy("\(world.bucket.url)/none*", world.scratch.path("out"), in: world)
                #expect(none.status == 1 && none.errors.contains("matches no key"), "\(none)")
                let many = try await copy("\(world.bucket.url)/logs/*", "-", in: world)
                #expect(many.status == 1 && many.errors.contains("matches 3 keys"), "\(many)")
            }
        }

        /// Each connection has threads of its own, and each check costs requests.
        @Test(.timeLimit(.minutes(5))) func sourcesInOneBucketHaveOneConnection() async throws {
            try await withStore { world, store in
                try await world.sh(
                    "mkdir $T/in; for n in 1 2 3; do echo $n >$T/in/$n; done; \(line("-r $T/in @/p", in: world))")
                let url = world.bucket.url
                func cost(_ sources: [String]) async throws -> Int {
                    let requests = try await store.requests {
                        let copied = try await world.pailfs(
                            ["cp"] + sources + ["\(world.scratch.path("out"))/", "-o", world.options([])])
                        #expect(copied.succeeded, "\(copied)")
                    }
                    return requests.counts.values.reduce(0, +) - 2 * sources.count
                }
                // A HEAD and a GET for each object.
                let one = try await cost(["\(url)/p/1"])
                #expect(try await cost(["\(url)/p/1", "\(url)/p/2", "\(url)/p/3"]) == one)
            }
        }

        @Test(.timeLimit(.minutes(5))) func aLinkOfAMountIsNoFile() async throws {
            try await withStore { world, _ in
                try await world.mount()
                try await world.sh(
                    """
                    mkdir d; echo a >d/a; ln -s a d/link; '\(Programs.pailfs)' flush --wait .
                    if \(line("-r d $T/out", in: world)) 2>$T/errors; then exit 1; fi
                    grep -q 'd/link.rclonelink: it is a symbolic link' $T/errors; test "$(ls $T/out)" = a
                    \(line("-r d copy", in: world)); test "$(readlink copy/link)" = a
                    """)
                try await world.unmount()
            }
        }

        @Test(.timeLimit(.minutes(5))) func aDirectoryOfAMountKeepsItsNameUnlessItEndsInASlash() async throws {
            try await withStore { world, _ in
                try await world.mount()
                try await world.sh(
                    """
                    mkdir d; echo a >d/a; '\(Programs.pailfs)' flush --wait .
                    \(line("-r d $T/named/", in: world)); test -f $T/named/d/a
                    \(line("-r d/ $T/contents/", in: world)); test -f $T/contents/a
                    \(line("-r d/. @/dot/", in: world)); \(line("-r d @/in/", in: world))
                    """)
                try await world.unmount()
                #expect(try await world.outside("keys").split(separator: "\n").suffix(3) == ["d/a", "dot/a", "in/d/a"])
            }
        }

        @Test(.timeLimit(.minutes(5))) func whatCannotBeCopiedIsNamedAndTheRestIsCopied() async throws {
            try await withStore { world, _ in
                try await world.sh("mkdir $T/tree; echo a >$T/tree/a; ln -s a $T/tree/link; mkfifo $T/tree/fifo")
                let tree = world.scratch.path("tree")
                let copied = try await copy("-r", tree, "\(world.bucket.url)/p", in: world)
                #expect(copied.status == 1 && copied.output.isEmpty, "\(copied)")
                #expect(copied.errors.contains("not copied: \(tree)/link") && copied.errors.contains("\(tree)/fifo"))
                #expect(copied.errors.hasSuffix("2 of 3 files were not copied\n"), "\(copied)")
                #expect(try await world.outside("keys") == "p/a\n")
            }
        }

        @Test(.timeLimit(.minutes(5))) func updateAndDryRun() async throws {
            try await withStore { world, store in
                try await world.sh("mkdir $T/tree; echo a >$T/tree/a; echo b >$T/tree/b")
                let (tree, url) = (world.scratch.path("tree"), "\(world.bucket.url)/p")
                let planned = try await copy("-r", "--dry-run", tree, url, in: world)
                #expect(planned.output == "\(tree)/a -> s3://pail/p/a\n\(tree)/b -> s3://pail/p/b\n", "\(planned)")
                #expect(try await world.outside("keys") == "")
                #expect(try await copy("-r", tree, url, in: world).succeeded)
                try await world.sh("echo more >$T/tree/b")
                let requests = try await store.requests {
                    let updated = try await copy("-r", "--update", tree, url, in: world)
                    #expect(updated.succeeded, "\(updated)")
                }
                #expect(requests.counts["PutObject"] == 1)
                #expect(try await world.outside("get", "p/b") == "more\n")
            }
        }

        // MARK: Resuming

        /// Starts the copy, kills it when the store has answered `count` requests of this name and the journal has as many lines
        /// that begin with `word`, and returns when it is dead.
        private func kill(
            _ command: String, after count: Int, _ operation: String, _ word: String?, _ store: Store,
            _ world: World
        ) async throws {
            try await store.setFaults("op=\(operation),after=\(count),kind=hang")
            @Sendable func answered() -> Int {
                store.requests.filter { $0.operation == operation && $0.status / 100 == 2 }.count
            }
            let before = answered()
            let child = try world.start("exec \(command)")
            let journals = world.scratch.path("cache/copies")
            let isThere = await poll(for: .seconds(60)) { () -> Bool? in
                guard answered() >= before + count else { return nil }
                guard let word else { return true }
                let names = (try? FileManager.default.contentsOfDirectory(atPath: journals)) ?? []
                let lines = names.flatMap { name in
                    ((try? String(contentsOfFile: "\(journals)/\(name)", encoding: .utf8)) ?? "").split(separator: "\n")
                }
                return lines.filter { $0.hasPrefix("\(word) ") }.count >= count ? true : nil
            }
            #expect(isThere == true, "\(child.errors)")
            child.send(SIGKILL)
            _ = await child.wait(deadline: .seconds(20))
            try await store.setFaults()
        }

        @Test(.timeLimit(.minutes(5))) func anUploadThatWasKilledIsResumed() async throws {
            try await withStore { world, store in
                try await world.sh("head -c 200000000 /dev/urandom >$T/big")
                let command = line("$T/big @/big", in: world)
                try await kill(command, after: 12, "UploadPart", nil, store, world)
                let left = try await world.pailfs(
                    ["uploads", "list", world.bucket.url, "-o", world.options([])])
                #expect(left.output.hasSuffix("  big\n"), "\(left)")
                let again = try await store.requests { try await world.sh(command) }
                // 24 parts of 8 MiB.
                #expect(again.counts["UploadPart"] == 12 && again.counts["CreateMultipartUpload"] == nil, "\(again)")
                #expect(again.sent < 12 * 8 << 20 + 1 << 20, "\(again.sent)")
                try await world.sh(#"\#(line("@/big $T/back", in: world)); cmp $T/big $T/back"#)
                let none = try await world.pailfs(["uploads", "list", world.bucket.url, "-o", world.options([])])
                #expect(none.output.isEmpty, "\(none)")
            }
        }

        @Test(.timeLimit(.minutes(5))) func aSourceThatChangedIsUploadedAgain() async throws {
            try await withStore { world, store in
                try await world.sh("head -c 100000000 /dev/urandom >$T/big")
                let command = line("$T/big @/big", in: world)
                try await kill(command, after: 3, "UploadPart", nil, store, world)
                try await world.sh("head -c 50000000 /dev/urandom >$T/big")
                let again = try await store.requests { try await world.sh(command) }
                #expect(again.counts["AbortMultipartUpload"] == 1 && again.counts["UploadPart"] == 6, "\(again)")
                try await world.sh(#"\#(line("@/big $T/back", in: world)); cmp $T/big $T/back"#)
            }
        }

        @Test(.timeLimit(.minutes(5))) func aDownloadThatWasKilledIsResumed() async throws {
            try await withStore { world, store in
                try await world.sh("head -c 200000000 /dev/urandom >$T/big; \(line("$T/big @/big", in: world))")
                let command = line("@/big $T/back", in: world)
                try await kill(command, after: 12, "GetObject", "range", store, world)
                try await world.sh("test ! -e $T/back; ls -a $T | grep -q pailfs-.*part")
                let again = try await store.requests { try await world.sh(command) }
                #expect(again.counts["GetObject"] == 12, "\(again)")
                #expect(again.received < 12 * 8 << 20 + 1 << 20, "\(again.received)")
                try await world.sh("cmp $T/big $T/back; ! ls -a $T | grep pailfs-.*part")
            }
        }

        @Test(.timeLimit(.minutes(5))) func filesThatWereCopiedBeforeTheKillAreLeftOut() async throws {
            try await withStore { world, store in
                try await world.sh("mkdir $T/tree; for n in $(seq 100); do echo $n >$T/tree/$n; done")
                let command = line("-r $T/tree @/p", in: world)
                try await kill(command, after: 60, "PutObject", "done", store, world)
                let again = try await store.requests { try await world.sh(command) }
                #expect(again.counts["PutObject"] == 40, "\(again)")
                let back = line("-r @/p $T/back", in: world)
                try await kill(back, after: 60, "GetObject", "done", store, world)
                let rest = try await store.requests { try await world.sh(back) }
                #expect(rest.counts["GetObject"] == 40, "\(rest)")
                try await world.sh("diff -r $T/tree $T/back")
                // When everything is copied, the next command copies it again.
                let whole = try await store.requests { try await world.sh(command) }
                #expect(whole.counts["PutObject"] == 100, "\(whole)")
            }
        }

        @Test(.timeLimit(.minutes(5))) func twoProcessesDoNotMakeTheSameCopy() async throws {
            try await withStore { world, store in
                try await world.sh("echo a >$T/a")
                let command = line("$T/a @/a", in: world)
                try await store.setFaults("op=PutObject,kind=hang")
                let first = try world.start("exec \(command)")
                let journals = world.scratch.path("cache/copies")
                let isThere = await poll(for: .seconds(60)) { () -> Bool? in
                    let names = (try? FileManager.default.contentsOfDirectory(atPath: journals)) ?? []
                    return names.isEmpty ? nil : true
                }
                #expect(isThere == true, "\(first.errors)")
                let second = try await copy(world.scratch.path("a"), "\(world.bucket.url)/a", in: world)
                #expect(second.status == 1 && second.errors.contains("another process makes this copy"), "\(second)")
                first.send(SIGKILL)
                _ = await first.wait(deadline: .seconds(20))
                try await store.setFaults()
                try await world.sh(command)
            }
        }

        // MARK: The terminal

        @Test(.timeLimit(.minutes(5))) func progressIsShownOnATerminalOnly() async throws {
            try await withStore { world, store in
                try await world.sh("head -c 60000000 /dev/zero >$T/big")
                let plain = try await copy(world.scratch.path("big"), "\(world.bucket.url)/a", in: world)
                #expect(plain.succeeded && plain.errors.isEmpty && plain.output.isEmpty, "\(plain)")
                try await store.setFaults("op=UploadPart,kind=bandwidth:4000000")
                func onTerminal(_ flags: String) async throws -> String {
                    try await world.python(
                        """
                        import os, pty
                        pid, terminal = pty.fork()
                        if pid == 0:
                            os.execlp("bash", "bash", "-c", r'''\(line("\(flags) $T/big @/b", in: world))''')
                        seen = b""
                        try:
                            while data := os.read(terminal, 65536): seen += data
                        except OSError: pass
                        assert os.waitpid(pid, 0)[1] == 0, seen
                        print(seen.decode())
                        """)
                }
                let shown = try await onTerminal("")
                #expect(shown.contains("MiB of 57.2MiB") && shown.contains("/s") && shown.contains("left"), "\(shown)")
                let quiet = try await onTerminal("--quiet")
                #expect(quiet == "\n", "\(quiet)")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo, .swift])
        func copiesHaveTheMetadataOfTheCommand(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.sh(
                    """
                    cd $T; echo text >a; url=\(world.bucket.url)
                    cp() { '\(Programs.pailfs)' cp -o '\(world.options([]))' "$@"; }
                    stat() { '\(Programs.pailfs)' stat -o '\(world.options([]))' $url/$1; }
                    cp --header 'X-Object-Meta-Team: Blue' --header 'Cache-Control: no-store' a $url/a
                    stat a | grep -i team | grep -q Blue
                    cp --header 'x-amz-meta-team:' --header 'x-oss-meta-other: 1' $url/a $url/b
                    stat b >b.stat; ! grep -i team b.stat; grep -i other b.stat
                    stat b | grep -q no-store || test \(provider) = swift
                    echo text >c.log; cp -o 'header-for=*.log: Content-Type: text/x-log' c.log $url/
                    stat c.log | grep -q 'content-type: text/x-log'
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5))) func copiesHaveTheACLOfTheCommand() async throws {
            try await withStore { world, store in
                try await world.sh(
                    """
                    cd $T; echo text >a; url=\(world.bucket.url)
                    cp() { '\(Programs.pailfs)' cp -o '\(world.options([]))' "$@"; }
                    get() { curl -sS --fail \(store.endpoint)/\(world.bucket.name)/$1; }
                    cp a $url/private; cp --acl public-read a $url/public; cp --acl public-read $url/private $url/copy
                    refuses get private; test "$(get public)$(get copy)" = texttext
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5))) func wrongArgumentsAreRefusedWithTheRemedy() async throws {
            try await withStore { world, _ in
                try await world.sh("mkdir $T/tree $T/there; echo a >$T/a; echo b >$T/b; ln -s nowhere $T/dangling")
                let url = world.bucket.url
                func path(_ name: String) -> String { world.scratch.path(name) }
                let wrong: [(arguments: [String], message: String)] = [
                    ([path("a"), path("b")], "use cp(1)"), ([path("none"), "\(url)/x"], "does not exist"),
                    ([path("tree"), "\(url)/x"], "use -r"), ([path("a"), path("b"), "\(url)/x"], "write a slash"),
                    (["-", "\(url)/"], "has no name"), (["-", path("a")], "use cp(1)"),
                    (["-r", "\(url)/x", "-"], "standard output takes one object"),
                    (["\(url)/none", path("there")], "none"),
                    (["\(url)/none", path("dangling")], "is a symbolic link"),
                    (["-r", "\(url)/none/", path("there")], "nothing to copy"),
                    (["-r", "\(url)/", "\(url)/backup/"], "copied into itself"),
                    ([path("a"), "s3://"], "names no bucket"),
                    (["--header", "Content-Type: x/y", "\(url)/x", path("there")], "local"),
                    (["--acl", "private", "\(url)/x", path("there")], "local"),
                    (["--header", "X-Other: y", path("a"), "\(url)/x"], "is not a stored header"),
                    (["--header", "x-amz-meta-mode: 1", path("a"), "\(url)/x"], "pailfs keeps attributes"),
                    (["--header", "x-amz-meta-a b: 1", path("a"), "\(url)/x"], "names of metadata are limited"),
                ]
                for (arguments, message) in wrong {
                    let outcome = try await world.pailfs(["cp"] + arguments + ["-o", world.options([])])
                    #expect(outcome.status == 1 && outcome.errors.contains(message), "\(arguments): \(outcome)")
                    #expect(outcome.errors.split(separator: "\n").count == 1, "\(arguments): \(outcome)")
                }
                #expect(try await world.outside("keys") == "")
                try await world.sh("test -z \"$(ls -A $T/cache/copies)\"")
            }
        }
    }
}
