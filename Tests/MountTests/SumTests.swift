import Foundation
import Testing

extension RealMounts {
    /// `pailfs sum`.
    @Suite struct Sums {
        /// A tree in the bucket, and the same as `$T/tree`.
        private func withTree(_ provider: Provider, _ body: (World) async throws -> Void) async throws {
            try await provider.withWorld { world in
                let bigParts = [Provider.cssp, .swift].contains(provider)
                try await world.mount(bigParts ? [] : ["part-size=5MiB"])
                try await world.sh(
                    """
                    mkdir -p $T/tree/d
                    echo content >$T/tree/a; : >$T/tree/d/empty; head -c 12000000 /dev/urandom >$T/tree/d/big
                    cp -r $T/tree/. .
                    """)
                try await world.unmount()
                try await body(world)
            }
        }

        private func sum(_ arguments: [String], in world: World) async throws -> Outcome {
            try await world.pailfs(["sum"] + arguments + ["-o", world.options([])])
        }

        @Test(.timeLimit(.minutes(5)), arguments: Provider.allCases)
        func eachObjectHasALine(_ provider: Provider) async throws {
            try await withTree(provider) { world in
                let all = try await sum([world.bucket.url], in: world)
                let lines = all.output.split(separator: "\n").map { $0.split(separator: " ") }
                #expect(all.succeeded && lines.map(\.last) == ["a", "d/big", "d/empty"], "\(all)")
                if provider != .kodo, provider != .cos, provider != .oss, provider != .s3 {
                    // md5sum(1) of what echo has written.
                    #expect(lines.first?.dropFirst().first == "f75b8179e4bbe7e2b4a074dcef62de95", "\(all)")
                }
                let one = try await sum(["\(world.bucket.url)/a"], in: world)
                #expect(one.output.split(separator: "\n").count == 1 && one.output.hasSuffix("  a\n"), "\(one)")
                let none = try await sum(["\(world.bucket.url)/none"], in: world)
                #expect(none.status == 1 && none.errors.contains("none"), "\(none)")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: Provider.allCases)
        func filesThatDifferAreNamed(_ provider: Provider) async throws {
            try await withTree(provider) { world in
                let tree = world.scratch.path("tree")
                let same = try await sum(["--compare", tree, world.bucket.url], in: world)
                // S3 has no checksum of the whole, nor of the parts, unless the upload has told them.
                let isKnown = provider != .s3
                let all =
                    isKnown
                    ? "3 the same\n"
                    : "\(tree)/d/big: no checksum in the bucket\n2 the same, 1 of the same length without a checksum\n"
                #expect(same.succeeded && same.output == all, "\(same)")
                let one = try await sum(["--compare", "\(tree)/a", "\(world.bucket.url)/a"], in: world)
                #expect(one.succeeded && one.output == "1 the same\n", "\(one)")
                try await world.sh(
                    """
                    cd $T/tree; echo kontent >a; echo >more; rm d/empty
                    printf x | dd of=d/big bs=1 seek=11999999 conv=notrunc status=none
                    """)
                let other = try await sum(["--compare", tree, world.bucket.url], in: world)
                #expect(other.status == 1, "\(other)")
                let big = isKnown ? "another" : "no checksum"
                for line in ["a: another", "d/big: \(big)", "d/empty: missing here", "more: not in the bucket"] {
                    #expect(other.output.contains("\(tree)/\(line)"), "\(line): \(other)")
                }
                let counts = isKnown ? "4 different" : "1 of the same length without a checksum, 3 different"
                #expect(other.output.hasSuffix("0 the same, \(counts)\n"), "\(other)")
            }
        }
    }
}
