import Foundation
import Testing

/// The bucket of another time.
extension OptionEffect {
    static let asOf = OptionEffect("as-of") {
        try await withStore(arguments: ["--versioning"]) { world, _ in
            try await world.mount([])
            try await world.sh("mkdir d; printf first >k; printf 1 >d/gone; printf x >d/same")
            try await world.unmount()
            let time = try await world.sh("cd /; sleep 1.1; date +%s; sleep 1.1").split(separator: "\n")[0]
            try await world.mount([])
            try await world.sh("printf other >k; rm d/gone; mkdir new; printf 2 >new/later; printf 3 >later")
            try await world.unmount()
            try await world.mount(["as-of=\(time)"])
            let seen = "./d\n./d/gone\n./d/same\n./k\n"
            #expect(try await world.sh("find . -mindepth 1 | LC_ALL=C sort") == seen)
            #expect(try await world.sh("cat k d/gone; stat -c %s k; test ! -e later; test ! -e new") == "first15\n")
            let refused = try await world.attempt("LC_ALL=C touch file")
            #expect(!refused.succeeded && refused.errors.contains("Read-only file system"), "\(refused)")
            try await world.unmount()
            // The mount of the present knows nothing of it.
            try await world.mount([])
            #expect(try await world.sh("cat k; ls d") == "othersame\n")
            try await world.unmount()
        }
    }
}

extension RealMounts {
    /// The option as-of, where there is nothing that it can show.
    @Suite struct AsOf {
        private func refusal(_ url: String, _ time: String, in world: World) async throws -> String {
            let outcome = try await world.pailfs(
                ["mount", url, world.mountpoint, "-o", world.options(["as-of=\(time)"])])
            #expect(outcome.status != 0 && !world.isMounted, "\(outcome)")
            return outcome.errors
        }

        @Test(.timeLimit(.minutes(2)))
        func aTimeOfWhichNothingIsKnownIsRefused() async throws {
            try await withStore { world, _ in
                let never = try await refusal(world.bucket.url, "2026-01-01T00:00:00Z", in: world)
                #expect(never.contains("keeps no versions") && never.contains("enable versioning"), "\(never)")
                let later = try await refusal(world.bucket.url, "9000-01-01T00:00:00Z", in: world)
                #expect(later.contains("as-of is a time that has not come yet"), "\(later)")
                let word = try await refusal(world.bucket.url, "yesterday", in: world)
                #expect(word.contains(#"the option as-of cannot be "yesterday""#), "\(word)")
                let account = try await refusal("s3://", "1", in: world)
                #expect(account.contains("as-of shows one bucket"), "\(account)")
                let other = try await refusal("kodo://\(world.bucket.name)", "1", in: world)
                #expect(other.contains("as-of"), "\(other)")
            }
        }

        /// Directories and files as they were, also where a listing has several pages and a key has more versions than one.
        @Test(.timeLimit(.minutes(3)), arguments: [Provider.oss, .cos])
        func aTreeIsAsItWas(_ provider: Provider) async throws {
            try await provider.withPailstore(arguments: ["--versioning"]) { world, _ in
                try await world.mount([])
                try await world.sh(
                    """
                    mkdir -p a/b deleted
                    for i in 1 2 3; do printf $i >a/b/$i; printf x$i >a/many; done
                    printf 1 >deleted/1; chmod 640 a/many; touch -d 2001-02-03T04:05:06Z a/b/1
                    rm a/b/2
                    """)
                try await world.unmount()
                let time = try await world.sh("cd /; sleep 1.1; date -u +%Y-%m-%dT%H:%M:%SZ; sleep 1.1").dropLast()
                try await world.mount([])
                try await world.sh("rm -r deleted; for i in 4 5 6; do printf $i >a/many; done; mv a/b a/c; rm a/c/1")
                try await world.unmount()
                try await world.mount(["as-of=\(time)", "attrs=exact"])
                let tree = "./a\n./a/b\n./a/b/1\n./a/b/3\n./a/many\n./deleted\n./deleted/1\n"
                #expect(try await world.sh("find . -mindepth 1 | LC_ALL=C sort") == tree)
                #expect(try await world.sh("cat a/many a/b/1 deleted/1; stat -c ' %a' a/many") == "x311 640\n")
                #expect(try await world.sh("TZ=UTC stat -c %y a/b/1").hasPrefix("2001-02-03 04:05:06"))
                try await world.sh("test ! -e a/b/2; test ! -e a/c; test ! -e a/c/1")
                try await world.unmount()
            }
        }
    }
}
