import Foundation
import Glibc
import TestSupport
import Testing

/// What `pailfs recover list --json` prints, as far as the tests look.
private struct RecoverDocument: Decodable {
    struct File: Decodable {
        struct Piece: Decodable, Equatable {
            let start: Int64
            let end: Int64
            let place: String
        }
        let key: String
        let size: Int64?
        let isCertain: Bool
        let pieces: [Piece]
    }
    let files: [File]
}

extension RealMounts {
    /// `pailfs recover`: bytes that a crash left and nobody was promised are kept, exactly, until somebody decides.
    @Suite struct Recover {
        /// Has a program write and go on holding its files, kills the mount's process, and unmounts. `writes` are lines of
        /// Python; a shell would close duplicates of its descriptors, and each close is a promise.
        private func crash(_ world: World, while writes: String) async throws {
            let source = "import os, time\n\(writes)\nopen(os.environ['T'] + '/written', 'w').close()\ntime.sleep(60)\n"
            try source.write(toFile: world.scratch.path("writer.py"), atomically: true, encoding: .utf8)
            let writer = try world.start("exec \(Programs.python) $T/writer.py")
            let written = await poll(for: .seconds(30)) { [scratch = world.scratch] in
                scratch.has("written") ? true : nil
            }
            world.killMount()
            writer.send(SIGKILL)
            _ = await writer.wait(deadline: .seconds(10))
            try #require(written == true, "\(writer.errors)")
            try await world.unmount()
        }

        private func list(_ world: World, _ place: String) async throws -> [RecoverDocument.File] {
            var arguments = ["recover", "list", place, "--json"]
            if place.contains("://") { arguments += ["-o", world.options([])] }
            let outcome = try await world.pailfs(arguments)
            guard outcome.succeeded else {
                throw ChildFailed(command: "pailfs recover list", outcome: outcome)
            }
            return try JSONDecoder().decode(RecoverDocument.self, from: Data(outcome.output.utf8)).files
        }

        @Test(.rule("crash.unacknowledged"), .timeLimit(.minutes(5)))
        func aNewFileIsSavedWithItsHolesAndCommittedOnRequestOnly() async throws {
            try await withMount { world, _ in
                try await world.sh("mkdir dir")
                try await crash(
                    world,
                    while: """
                        f = os.open("dir/file", os.O_RDWR | os.O_CREAT)
                        os.pwrite(f, b"hello", 0)
                        os.ftruncate(f, 1000000)
                        os.pwrite(f, b"end", 1000000)
                        """)
                try await world.sh(
                    "printf hello >$T/expected; truncate -s 1000000 $T/expected; printf end >>$T/expected")
                try await world.mount()
                #expect(try await world.outside("keys").contains("dir/file") == false)
                let files = try await list(world, world.mountpoint)
                #expect(files.map(\.key) == ["dir/file"] && files.first?.size == 1_000_003, "\(files)")
                #expect(files.first?.pieces.map(\.place) == ["here", "hole", "here"])
                let save = try await world.pailfs([
                    "recover", "save", world.scratch.path("saved"), world.mountpoint,
                ])
                #expect(save.succeeded, "\(save)")
                try await world.sh("cmp $T/saved/dir/file $T/expected; test ! -e dir/file")
                let commit = try await world.pailfs(["recover", "commit", world.mountpoint, "dir/file"])
                #expect(commit.succeeded, "\(commit)")
                try await world.sh("cmp dir/file $T/expected")
                #expect(try await world.outside("keys").contains("dir/file"))
                #expect(try await list(world, world.mountpoint).isEmpty)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func whatIsNotHereComesFromTheVersionTheFileWasOpenedWithAndFromNoOther() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    "head -c 3000000 /dev/urandom >$T/base; head -c 3000000 /dev/urandom >$T/other")
                try await world.outside("put", "file", world.scratch.path("base"))
                try await crash(
                    world,
                    while: """
                        f = os.open("file", os.O_RDWR)
                        os.pwrite(f, b"0" * 100, 1000001)
                        """)
                try await world.sh(
                    """
                    cp $T/base $T/expected
                    dd of=$T/expected bs=1 seek=1000001 conv=notrunc status=none < <(printf %0100d 0)
                    """)
                try await world.mount(["ttl=0"])
                let files = try await list(world, world.mountpoint)
                #expect(
                    files.first?.pieces.contains(.init(start: 1_000_001, end: 1_000_101, place: "here"))
                        == true)
                let save = try await world.pailfs([
                    "recover", "save", world.scratch.path("saved"), world.mountpoint,
                ])
                #expect(save.succeeded, "\(save)")
                try await world.sh("cmp $T/saved/file $T/expected")
                try await world.unmount()
                try await world.outside("put", "file", world.scratch.path("other"))
                // The blocks that the save has brought are on this disk; another version is no substitute for the rest.
                try await world.sh("rm -rf $T/cache/*/blocks*", deadline: .seconds(20))
                try await world.mount(["ttl=0"])
                let late = try await world.pailfs([
                    "recover", "save", world.scratch.path("late"), world.mountpoint,
                ])
                #expect(late.status == 1)
                #expect(late.errors.contains("bytes 0-1000000, 1000101-2999999 are"), "\(late)")
                try await world.sh("test ! -e $T/late/file; cmp file $T/other")
                let refused = try await world.pailfs(["recover", "discard", world.mountpoint])
                #expect(refused.status != 0, "names or --all")
                #expect(try await list(world, world.mountpoint).count == 1)
                let discard = try await world.pailfs(["recover", "discard", world.mountpoint, "--all"])
                #expect(discard.succeeded, "\(discard)")
                #expect(try await list(world, world.mountpoint).isEmpty)
            }
        }

        @Test(.rule("crash.unacknowledged"), .timeLimit(.minutes(5)))
        func withoutAMountTheCommandDoesItItself() async throws {
            try await withMount { world, _ in
                try await crash(
                    world,
                    while: """
                        one, two = (os.open(name, os.O_WRONLY | os.O_CREAT) for name in ("one", "two"))
                        os.write(one, b"1")
                        os.write(two, b"2")
                        """)
                #expect(try await list(world, world.bucket.url).map(\.key).sorted() == ["one", "two"])
                let options = ["-o", world.options([])]
                let save = try await world.pailfs(
                    ["recover", "save", world.scratch.path("saved"), world.bucket.url] + options)
                #expect(save.succeeded, "\(save)")
                try await world.sh("test $(cat $T/saved/one $T/saved/two) = 12")
                let commit = try await world.pailfs(
                    ["recover", "commit", world.bucket.url, "two"] + options)
                #expect(commit.succeeded, "\(commit)")
                #expect(try await world.outside("keys") == "two\n")
                #expect(try await world.outside("get", "two") == "2")
                let discard = try await world.pailfs(
                    ["recover", "discard", world.bucket.url, "one"] + options)
                #expect(discard.succeeded, "\(discard)")
                #expect(try await list(world, world.bucket.url).isEmpty)
                try await world.mount()
                try await world.sh("test $(ls) = two")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aCommandFailsWhenItCannotStoreWhatWasPromisedBesides() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await store.setFaults("op=PutObject,key=promised,kind=status:403")
                try await crash(
                    world,
                    while: """
                        with open("promised", "w") as f: f.write("1")
                        two = os.open("two", os.O_WRONLY | os.O_CREAT)
                        os.write(two, b"2")
                        """)
                let options = ["-o", world.options(["durable=local", "timeout=2", "retries=1"])]
                let commit = try await world.pailfs(["recover", "commit", world.bucket.url, "two"] + options)
                #expect(commit.output.contains("two: stored"), "\(commit)")
                #expect(commit.status == 1 && commit.errors.contains("not stored: promised"), "\(commit)")
                let warm = try await world.pailfs(["warm", world.bucket.url] + options)
                #expect(warm.status == 1 && warm.errors.contains("not stored: promised"), "\(warm)")
                try await store.setFaults()
                let late = try await world.pailfs(["warm", world.bucket.url] + options)
                #expect(late.succeeded, "\(late)")
                #expect(try await world.outside("get", "promised") == "1")
            }
        }

        /// The journal was deleted, or an older copy put in its place.
        @Test(.rule("crash.disk"), .timeLimit(.minutes(5)))
        func bytesThatTheJournalDoesNotKnowAreToldOnTheTerminal() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("head -c 300000 /dev/urandom >$T/file; cp $T/file file")
                world.killMount()
                try await world.unmount()
                try await world.sh("cd $T; d=$(dirname $(find . -name journal.db)); rm $d/journal*; ls -la $d")
                let mount = try await world.pailfs(
                    ["mount", world.bucket.url, world.mountpoint, "-o", world.options(["durable=local"])])
                #expect(mount.succeeded && mount.errors.contains("1 file of acknowledged"), "\(mount)")
                let command = try #require(mount.errors.split(separator: "\"").dropFirst().first.map(String.init))
                let copy = command.replacing("DIRECTORY", with: "$T/out")
                try await world.sh("mkdir $T/out; \(copy); cd $T/out; cmp $(ls | grep -v '[.]map') $T/file")
                #expect(try await world.pailfs(["unmount", world.mountpoint]).succeeded)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aCommitThatComesSecondKeepsBoth() async throws {
            try await withMount { world, _ in
                world.expectsErrorsInLog = true
                try await crash(world, while: "f = os.open('file', os.O_WRONLY | os.O_CREAT); os.write(f, b'ours')")
                try await world.sh("printf theirs >$T/theirs")
                try await world.outside("put", "file", world.scratch.path("theirs"))
                try await world.mount()
                let commit = try await world.pailfs(["recover", "commit", world.mountpoint, "--all"])
                #expect(commit.status == 1 && commit.errors.contains("another host replaced"), "\(commit)")
                #expect(try await world.outside("get", "file") == "theirs")
                try await world.sh("test $(cat file.conflict-*) = ours; test $(cat file) = theirs")
            }
        }

        @Test(.rule("error.reason", "visible.remote"), .timeLimit(.minutes(5)))
        func explainTellsTheStateAndTheLastErrorAndRefreshAsksTheStoreAgain() async throws {
            try await withMount("ttl=600", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("printf one >$T/one; printf longer >$T/two")
                try await world.outside("put", "dir/file", world.scratch.path("one"))
                try await world.sh("test $(cat dir/file) = one")
                try await world.outside("put", "dir/file", world.scratch.path("two"))
                try await world.sh("test $(cat dir/file) = one")
                let refresh = try await world.pailfs(["refresh", world.mountpoint + "/dir"])
                #expect(refresh.succeeded, "\(refresh)")
                try await world.sh("test $(cat dir/file) = longer")
                try await store.setFaults("op=PutObject,kind=status:403")
                _ = try await world.attempt("printf x >dir/refused")
                try await store.setFaults()
                let explain = try await world.pailfs(["explain", world.mountpoint + "/dir/file"])
                for line in ["key: dir/file", "bytes: 6", "last-error: none"] {
                    #expect(explain.output.split(separator: "\n").contains(line[...]), "\(explain)")
                }
                let refused = try await world.pailfs(["explain", world.mountpoint + "/dir/refused"])
                #expect(
                    refused.output.contains("put dir/refused") && refused.output.contains("HTTP 403"),
                    "\(refused)")
                #expect(refused.output.contains("request "), "the request ID")
            }
        }
    }
}
