import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// The commands on objects, given paths in a mount: they go to the store as the mount does, whatever the environment
    /// of whoever runs them says.
    @Suite struct ObjectPaths {
        private func run(_ command: String, in world: World) async throws -> Outcome {
            let arguments = command.split(separator: " ").map { word in
                word.hasPrefix("@") ? "\(world.mountpoint)/\(word.dropFirst())" : String(word)
            }
            return try await world.pailfs(
                arguments,
                changing: ["PAILFS_ACCESS_KEY_ID": "nobody", "PAILFS_SECRET_ACCESS_KEY": "none", "PAILFS_REGION": "x"])
        }

        private func output(_ command: String, in world: World) async throws -> String {
            let outcome = try await run(command, in: world)
            guard outcome.succeeded else { throw ChildFailed(command: "pailfs \(command)", outcome: outcome) }
            return outcome.output
        }

        @Test(.timeLimit(.minutes(2)), arguments: [Provider.s3, .oss, .cos])
        func everyCommandTakesAPath(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.mount([])
                try await world.sh("mkdir dir; printf content >dir/a; mkdir dir/p; ln -s a dir/p/link")
                #expect(try await output("stat @dir/a", in: world).hasPrefix("key: dir/a\nbytes: 7\n"))
                #expect(try await output("stat @dir/p", in: world).hasPrefix("key: dir/p/\n"))
                let list = try await output("ls @dir", in: world)
                #expect(list.contains("dir/a\n") && list.contains("dir/p/\n"), "\(list)")
                #expect(try await output("ls -lR @", in: world).contains("  dir/a\n"))
                #expect(try await output("ls @dir/a", in: world) == "dir/a\n")

                // What a command changes the mount shows at once, though it believes what it knows for a minute.
                try await world.sh("test ! -e dir/b; ls dir")
                _ = try await output("cp @dir/a @dir/b --header content-type:text/x-test", in: world)
                try await world.sh("test $(cat dir/b) = content; ls dir | grep -qx b")
                _ = try await output("cp @dir/a @", in: world)
                try await world.sh("test $(cat a) = content")
                _ = try await output("rm @dir/b", in: world)
                for command in ["rm @dir", "cp @dir @dir2"] {
                    let refused = try await run(command, in: world)
                    #expect(refused.status == 1 && refused.errors.contains("is a directory"), "\(refused)")
                }
                try await world.sh("test ! -e dir/b; test -z \"$(ls dir | grep -x b)\"")

                _ = try await output("tag set @a one=1", in: world)
                #expect(try await output("tag get @a", in: world) == "one=1\n")
                _ = try await output("tag rm @a", in: world)
                _ = try await output("acl set @a public-read", in: world)
                #expect(try await !output("acl get @a", in: world).isEmpty)
                let url = try await output("presign @a --expires 5m", in: world).trimmingCharacters(in: .newlines)
                #expect(try await world.sh("curl -sS --fail '\(url)'") == "content")
                #expect(try await output("uploads list @", in: world) == "")
                #expect(try await output("uploads abort @dir --older-than 0s", in: world) == "")
                let page = try await run("preflight @a --origin https://a.example", in: world)
                #expect(page.status == 1 && page.errors.contains("CORS"), "\(page)")
                let report = try await output("doctor @dir", in: world)
                #expect(report.contains("put") && !report.contains("FAILED"), "\(report)")
                try await world.sh("ls -a | grep pailfs-doctor && exit 1 || true")

                #expect(try await output("rm -r @dir", in: world).hasSuffix("objects deleted\n"))
                try await world.sh("test \"$(ls)\" = a")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func removalTakesALinkAndNotWhatItLeadsTo() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    "mkdir dir; printf 1 >dir/a; ln -s dir/a file; ln -s dir tree; ln -s dir other; ln -s none dead")
                for command in ["rm @file", "rm -r @tree", "rm @dead", "rm -r @dir/a"] {
                    _ = try await output(command, in: world)
                    if command != "rm -r @dir/a" { try await world.sh("test $(cat dir/a) = 1") }
                }
                try await world.sh("test \"$(echo *)\" = 'dir other'; test -z \"$(ls dir)\"")
                // In front of a slash it is the directory that it leads to.
                try await world.sh("printf 1 >dir/b")
                #expect(try await output("rm -r @other/", in: world).hasSuffix("objects deleted\n"))
                try await world.sh("test ! -e dir/b; test -L other")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func aCopyIsAtThePathThatWasNamedOrNowhere() async throws {
            try await withMount { world, _ in
                try await world.sh("printf 1 >a; printf 2 >file; ln -s none dead; ln -s file link")
                let before = try await world.outside("keys")
                for destination in ["@dead", "@dead/", "@file/", "@link/", "@none/b"] {
                    let refused = try await run("cp @a \(destination)", in: world)
                    #expect(refused.status == 1 && !refused.errors.isEmpty, "\(destination): \(refused)")
                }
                #expect(try await world.outside("keys") == before)
                try await world.sh("test $(cat file) = 2; test $(readlink dead) = none; test ! -e none")
                _ = try await output("cp @a @new/", in: world)
                #expect(try await world.outside("get", "new/a") == "1")
                try await world.sh("test -d new; test $(cat new/a) = 1")
                _ = try await output("cp @a @link", in: world)
                try await world.sh("test -L link; test $(cat file) = 1")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func aPathOfNoMountOrOfWhatIsNotStoredIsRefused() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                let outside = try await run("stat \(world.scratch.directory)", in: world)
                #expect(outside.status == 1 && outside.errors.contains("scheme://bucket/key"), "\(outside)")
                let missing = try await run("stat @none", in: world)
                #expect(missing.status == 1 && missing.errors.contains("none"), "\(missing)")
                try await world.sh("mkdir dir")
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("printf 1 >dir/file")
                for command in ["stat @dir/file", "rm @dir/file", "rm -r @dir", "cp @dir/file @other"] {
                    let refused = try await run(command, in: world)
                    #expect(refused.status == 1 && refused.errors.contains("flush --wait"), "\(command): \(refused)")
                }
                try await store.setFaults()
            }
        }

        @Test(.rule("open.archived", "error.reason"), .timeLimit(.minutes(2)))
        func whoReadsAnArchivedObjectIsToldHowToHaveItBack() async throws {
            for (provider, archive) in [Provider.s3: "GLACIER", .oss: "Archive", .cos: "ARCHIVE"] {
                try await provider.withWorld { world in
                    world.expectsErrorsInLog = true
                    try await world.mount([])
                    try "content".write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
                    try await world.outside("put", "a", world.scratch.path("file"))
                    _ = try await output("class @a \(archive)", in: world)
                    #expect(try await output("class @a", in: world) == "\(archive)\n", "\(provider)")
                    let refused = try await world.attempt("cat a")
                    #expect(refused.errors.contains("Permission denied"), "\(provider): \(refused)")
                    #expect(
                        try await output("explain @a", in: world).contains("\"pailfs restore PATH\""), "\(provider)")
                    let error = try await world.python(
                        "import os; print(os.getxattr('a', 'user.pailfs.lasterror').decode())")
                    #expect(error.contains("\"pailfs restore PATH\""), "\(provider): \(error)")
                    let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                    #expect(log.contains("pailfs restore"), "\(provider)")
                    _ = try await output("restore @a --days 2", in: world)
                    let read = "for ((n = 0; n < 400; n++)); do cat a 2>/dev/null && exit; sleep 0.05; done; exit 1"
                    #expect(try await world.sh(read) == "content", "\(provider)")
                }
            }
        }
    }
}
