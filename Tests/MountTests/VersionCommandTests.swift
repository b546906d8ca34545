import Foundation
import Testing

extension RealMounts {
    /// The commands on versions of objects.
    @Suite struct VersionCommands {
        private static let withVersions: [Provider] = [.s3, .oss, .cos]

        private struct Version: Decodable {
            var key: String
            var version: String
            var isLatest: Bool
            var isDeleteMarker: Bool
            var bytes: Int?
            var etag: String?
        }

        /// `@key` is an object's URL, `%key` its path in the mount.
        private func run(_ command: String, in world: World) async throws -> Outcome {
            var arguments = command.split(separator: " ").map { word in
                switch word.first {
                case "@": "\(world.bucket.url)/\(word.dropFirst())"
                case "%": "\(world.mountpoint)/\(word.dropFirst())"
                default: String(word)
                }
            }
            if !command.contains("%") { arguments += ["-o", world.options([])] }
            return try await world.pailfs(arguments)
        }

        @discardableResult
        private func output(_ command: String, in world: World) async throws -> String {
            let outcome = try await run(command, in: world)
            guard outcome.succeeded else { throw ChildFailed(command: "pailfs \(command)", outcome: outcome) }
            return outcome.output
        }

        private func versions(_ place: String, in world: World) async throws -> [Version] {
            try await output("versions --json \(place)", in: world).split(separator: "\n").map {
                try JSONDecoder().decode(Version.self, from: Data($0.utf8))
            }
        }

        /// Makes an object of these bytes: one more version of its key.
        private func store(_ content: String, as key: String, in world: World) async throws {
            try content.write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
            try await output("cp \(world.scratch.path("file")) @\(key)", in: world)
        }

        private func withBucket(_ provider: Provider, _ body: (World) async throws -> Void) async throws {
            try await provider.withPailstore(arguments: ["--versioning"]) { world, _ in try await body(world) }
        }

        @Test(.timeLimit(.minutes(5)), arguments: withVersions)
        func versionsAreListed(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                for content in ["1", "22", "333"] { try await store(content, as: "d/k", in: world) }
                try await store("other", as: "d/k2", in: world)
                try await output("rm @d/k2", in: world)
                let found = try await versions("@d/k", in: world)
                #expect(found.map(\.bytes) == [3, 2, 1] && found.map(\.isLatest) == [true, false, false])
                #expect(Set(found.map(\.version)).count == 3)
                let below = try await versions("@d/", in: world)
                #expect(below.map(\.key) == ["d/k", "d/k", "d/k", "d/k2", "d/k2"])
                #expect(below.map(\.isDeleteMarker) == [false, false, false, true, false])
                let lines = try await output("versions @d/k2", in: world).split(separator: "\n")
                    .map { $0.split(separator: " ") }
                #expect(lines.count == 2 && lines.allSatisfy { $0.count == 6 && $0[5] == "d/k2" }, "\(lines)")
                #expect(lines[0][1...3] == ["-", "delete-marker", "latest"], "\(lines)")
                #expect(lines[1][1] == "5" && lines[1][3] == "-", "\(lines)")
                let none = try await run("versions @none", in: world)
                #expect(none.status == 1 && none.errors.contains("/none has no version; check its name"), "\(none)")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: withVersions)
        func aVersionIsCopied(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                try await store("first", as: "k", in: world)
                try await store("second", as: "k", in: world)
                try await output("rm @k", in: world)
                let found = try await versions("@k", in: world)
                let (marker, first) = (found[0].version, found[2].version)
                #expect(try await output("cp --version \(first) @k -", in: world) == "first")
                try await output("cp --version \(first) @k \(world.scratch.path("got"))", in: world)
                #expect(try await world.sh("cat $T/got") == "first")
                try await output("cp --version \(first) @k @copy", in: world)
                #expect(try await output("cp @copy -", in: world) == "first")
                // Onto its own key as well.
                try await output("cp --version \(first) @k @k", in: world)
                #expect(try await output("cp @k -", in: world) == "first")
                for (version, reason) in [("none", "has no version none"), (marker, "is a delete marker")] {
                    let refused = try await run("cp --version \(version) @k \(world.scratch.path("no"))", in: world)
                    #expect(refused.status == 1 && refused.errors.contains(reason), "\(refused)")
                }
                let several = try await run("cp --version \(first) -r @k @copies/", in: world)
                #expect(several.status != 0 && several.errors.contains("leave out -r"), "\(several)")
                let local = try await run("cp --version \(first) \(world.scratch.path("got")) @k", in: world)
                #expect(local.status == 1 && local.errors.contains("leave it out"), "\(local)")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: withVersions)
        func aVersionBecomesTheLatestAgain(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                try await world.mount([])
                try await world.sh("printf first >k; chmod 640 k; sync k; sleep 1; printf second! >k; chmod 600 k")
                try await output("flush --wait %", in: world)
                let before = try await versions("%k", in: world)
                let first = try #require(before.first { $0.bytes == 5 }).version
                try await world.sh("test $(cat k) = second!; ls >/dev/null")
                try await output("restore-version %k \(first)", in: world)
                // The mount shows it at once.
                try await world.sh("test \"$(cat k)\" = first; test \"$(stat -c '%s %a' k)\" = '5 640'")
                let after = try await versions("%k", in: world)
                #expect(after.count == before.count + 1 && after[0].isLatest && after[0].bytes == 5)
                #expect(!before.map(\.version).contains(after[0].version), "the versions in between are kept")
                let none = try await run("restore-version %k none", in: world)
                #expect(none.status == 1 && none.errors.contains("has no version none"), "\(none)")
                try await world.sh("rm k")
                try await output("flush --wait %", in: world)
                let marker = try await versions("%k", in: world)[0]
                #expect(marker.isDeleteMarker)
                let refused = try await run("restore-version %k \(marker.version)", in: world)
                #expect(refused.status == 1 && refused.errors.contains("is a delete marker"), "\(refused)")
                try await output("restore-version %k \(first)", in: world)
                try await world.sh("test \"$(cat k)\" = first")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: withVersions)
        func whatWasDeletedComesBack(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                try await world.mount([])
                try await world.sh("mkdir d; printf 1 >d/a; printf 22 >d/b; printf 3 >d/kept; printf 4 >alone")
                try await output("flush --wait %", in: world)
                try await world.sh("rm alone d/a d/b")
                try await output("flush --wait %", in: world)
                try await output("undelete %alone", in: world)
                try await world.sh("test $(cat alone) = 4; ls | grep -qx alone")
                let again = try await run("undelete %alone", in: world)
                #expect(again.status == 1 && again.errors.contains("nothing to undelete"), "\(again)")
                #expect(try await output("undelete -r %d", in: world) == "2 objects undeleted\n")
                try await world.sh("test \"$(cat d/a d/b d/kept)\" = 1223; test \"$(ls d | xargs)\" = 'a b kept'")
                let nothing = try await run("undelete -r %d", in: world)
                #expect(nothing.status == 1 && nothing.errors.contains("nothing below it"), "\(nothing)")
                // A directory that is gone, and a key that was deleted twice.
                try await world.sh("rm -r d; test ! -e d")
                try await output("undelete -r %d", in: world)
                try await world.sh("test \"$(cat d/a d/b d/kept)\" = 1223; test \"$(ls d | xargs)\" = 'a b kept'")
                try await world.sh("rm -r d")
                try await output("flush --wait %", in: world)
                try await world.unmount()
                if provider == .s3 {
                    let client = "boto3.client('s3', endpoint_url=os.environ['ENDPOINT'], region_name='us-east-1')"
                    _ = try await world.python(
                        "import boto3, os; \(client).delete_object(Bucket='\(world.bucket.name)', Key='d/a')")
                    #expect(try await versions("@d/a", in: world).prefix(2).allSatisfy(\.isDeleteMarker))
                }
                let deleted = try await versions("@d/", in: world).filter { $0.isLatest && $0.isDeleteMarker }
                #expect(Set(deleted.map(\.key)).isSuperset(of: ["d/a", "d/b", "d/kept"]))
                #expect(try await output("undelete -r @d", in: world) == "\(deleted.count) objects undeleted\n")
                #expect(try await output("cp @d/a -", in: world) == "1")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: withVersions)
        func aVersionIsDeletedForGood(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                try await store("first", as: "k", in: world)
                try await store("second", as: "k", in: world)
                try await world.mount([])
                try await world.sh("test $(cat k) = second")
                let found = try await versions("%k", in: world)
                try await output("rm --version \(found[0].version) %k", in: world)
                // The one before is the latest, and the mount shows it.
                try await world.sh("test $(cat k) = first")
                #expect(try await versions("%k", in: world).map(\.version) == [found[1].version])
                let gone = try await run("rm --version \(found[0].version) %k", in: world)
                #expect(gone.status == 1 && gone.errors.contains("has no version"), "\(gone)")
                let many = try await run("rm -r --version \(found[1].version) %k", in: world)
                #expect(many.status != 0 && many.errors.contains("leave out -r"), "\(many)")
            }
        }

        @Test(.timeLimit(.minutes(2)), arguments: withVersions)
        func aBucketWithoutVersioningSaysTheRemedy(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("content", as: "d/k", in: world)
                for command in [
                    "versions @d/k", "versions @d/", "undelete @d/k", "undelete -r @d", "restore-version @d/k 1",
                    "rm --version 1 @d/k", "cp --version 1 @d/k -",
                ] {
                    let refused = try await run(command, in: world)
                    #expect(
                        refused.status == 1 && refused.errors.contains("keeps no versions; enable versioning"),
                        "\(command): \(refused)")
                }
            }
        }

        /// Removals of many files are sent together, a moment after rm(1) has ended.
        @Test(.timeLimit(.minutes(2)), arguments: withVersions)
        func whatWasJustRemovedComesBackAndStays(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                try await world.mount()
                try await world.sh("mkdir d; for i in 1 2 3 4 5 6 7 8; do printf $i >d/$i; done")
                try await output("flush --wait %", in: world)
                let kept = try #require(try await versions("%d/7", in: world).first).version
                try await world.sh("rm d/*; \(Programs.pailfs) undelete d/6")
                try await world.sh("printf 9 >d/9; rm d/1 d/2 d/3 d/4 d/5 d/6 d/7 d/8 d/9 2>/dev/null || :")
                try await output("restore-version %d/7 \(kept)", in: world)
                try await output("flush --wait %", in: world)
                try await world.sh("test \"$(ls d)\" = 7; test $(cat d/7) = 7")
                #expect(try await output("cp @d/7 -", in: world) == "7")
            }
        }

        /// Its object is deleted when it is closed, also one that a command has brought back.
        @Test(.timeLimit(.minutes(2)), arguments: withVersions)
        func whatIsRemovedButOpenIsNotBroughtBack(_ provider: Provider) async throws {
            try await withBucket(provider) { world in
                try await store("content", as: "k", in: world)
                try await world.mount()
                let id = try await versions("%k", in: world)[0].version
                try await world.sh(
                    """
                    exec 3<k; rm k
                    for command in 'undelete k' 'restore-version k \(id)'; do
                        if \(Programs.pailfs) $command 2>$T/errors; then exit 1; fi
                        grep -q 'close it first' $T/errors
                    done
                    """)
                try await output("flush --wait %", in: world)
                try await output("undelete %k", in: world)
                try await world.sh("test $(cat k) = content")
            }
        }

        /// While versioning is suspended, a write replaces the version `null`: a copy of another version onto the key would.
        @Test(.timeLimit(.minutes(2)))
        func aSuspendedBucketKeepsItsNullVersion() async throws {
            try await withBucket(.s3) { world in
                try await store("first", as: "k", in: world)
                let first = try await versions("@k", in: world)[0].version
                let client = "boto3.client('s3', endpoint_url=os.environ['ENDPOINT'], region_name='us-east-1')"
                let suspended = "{'Status': 'Suspended'}"
                _ = try await world.python(
                    "import boto3, os; \(client).put_bucket_versioning("
                        + "Bucket='\(world.bucket.name)', VersioningConfiguration=\(suspended))")
                try await store("second", as: "k", in: world)
                let history = try await versions("@k", in: world).map(\.version)
                #expect(history == ["null", first])
                for command in ["restore-version @k \(first)", "cp --version \(first) @k @k"] {
                    let refused = try await run(command, in: world)
                    #expect(
                        refused.status == 1 && refused.errors.contains("pailfs cp --version null"),
                        "\(command): \(refused)")
                }
                #expect(try await versions("@k", in: world).map(\.version) == history)
                try await output("cp --version null @k @kept", in: world)
                #expect(try await output("cp @kept -", in: world) == "second")
                try await output("restore-version @k null", in: world)
                #expect(try await output("cp @k -", in: world) == "second")
                try await output("rm --version null @k", in: world)
                try await output("restore-version @k \(first)", in: world)
                #expect(try await output("cp @k -", in: world) == "first")
            }
        }

        /// In a mount of an account the bucket of the path is asked.
        @Test(.timeLimit(.minutes(2)), arguments: withVersions)
        func aBucketOfAnAccountWithoutVersioningSaysTheRemedy(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("content", as: "d/k", in: world)
                let account = try World(scratch: world.scratch, bucket: world.bucket.account)
                try await account.mount()
                let bucket = world.bucket.name
                for command in ["versions %\(bucket)/d/k", "versions %\(bucket)/d", "undelete %\(bucket)/d/k"] {
                    let refused = try await run(command, in: account)
                    #expect(
                        refused.status == 1 && refused.errors.contains("keeps no versions; enable versioning"),
                        "\(command): \(refused)")
                }
                try await account.unmount()
            }
        }

        @Test(.timeLimit(.minutes(2)), arguments: [Provider.kodo, .cssp])
        func aStoreWithoutVersionsSaysSo(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("content", as: "k", in: world)
                for command in ["versions @k", "undelete @k", "restore-version @k 1", "rm --version 1 @k"] {
                    let refused = try await run(command, in: world)
                    #expect(
                        refused.status == 1 && refused.errors.contains("has no versions of objects"),
                        "\(command): \(refused)")
                }
            }
        }

        @Test(.timeLimit(.minutes(2)))
        func aReadOnlyMountRefusesChanges() async throws {
            try await withBucket(.s3) { world in
                try await store("content", as: "k", in: world)
                let id = try await versions("@k", in: world)[0].version
                try await world.mount(["ro"])
                #expect(try await versions("%k", in: world).count == 1)
                for command in ["restore-version %k \(id)", "undelete %k", "rm --version \(id) %k"] {
                    let refused = try await run(command, in: world)
                    #expect(refused.status == 1 && refused.errors.contains("read-only mount"), "\(refused)")
                }
            }
        }
    }
}
