import Foundation
import Synchronization
import TestSupport
import Testing

extension RealMounts {
    /// The main job on every store: what people do with a mount, each in its own protocol, compared byte by byte by another
    /// machine's mount and, where pailstore is the server, through S3 as well.
    @Suite struct EveryStore {
        @Test(.rule("object.plain"), .timeLimit(.minutes(10)), arguments: Provider.allCases)
        func theMainJobIsDone(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                var row = Row(provider)
                try await world.mount(["part-size=5MiB"])
                for (name, script) in Self.acts {
                    try await row.time(name) { try await world.sh(script, deadline: .seconds(180)) }
                }
                try await row.time("unmount") { try await world.unmount() }
                try await world.outside("compare", world.scratch.path("copied"), "copied/")
                // Another machine: nothing cached, exact attributes wanted.
                try await world.mount(["attrs=exact"], cache: "another")
                try await row.time("look from elsewhere") {
                    try await world.sh(
                        """
                        same $T/copied copied
                        same $T/renamed renamed
                        same $T/tree synced
                        cmp $T/big big
                        test "$(ls | sort | tr '\\n' ' ')" = 'big copied renamed synced '
                        """, deadline: .seconds(120))
                }
                row.print()
            }
        }

        private static let acts = [
            ("cp -a", "make_tree $T/tree; cp -a $T/tree $T/copied; cp -a $T/tree copied; same $T/copied copied"),
            (
                "tar",
                """
                mkdir unpacked
                tar --format=posix -C $T/tree -cf - . | tar -C unpacked -xpf -
                tar --format=posix -C unpacked -cf - . | tar -C $T/tree -df -
                """
            ),
            (
                "rsync",
                """
                rsync -a $T/tree/ synced/
                test -z "$(rsync -ai $T/tree/ synced/)"
                """
            ),
            (
                "big file",
                """
                head -c 24000000 /dev/urandom >$T/big
                cp $T/big big
                printf changed | dd of=big bs=1 seek=9000000 conv=notrunc status=none
                printf changed | dd of=$T/big bs=1 seek=9000000 conv=notrunc status=none
                cmp $T/big big
                """
            ),
            (
                "rename",
                """
                mv unpacked renamed
                mv $T/tree $T/renamed; cp -a $T/renamed $T/tree
                mv renamed/deep/private renamed/Package.swift
                mv $T/renamed/deep/private $T/renamed/Package.swift
                touch -d '2002-03-04 05:06:07.890123456' renamed renamed/deep $T/renamed $T/renamed/deep
                same $T/renamed renamed
                """
            ),
            (
                "rm -r",
                """
                cp -a $T/tree gone
                rm -r gone
                test ! -e gone
                """
            ),
        ]

        /// How long each act took: one line of the table that `scripts/test` shows.
        private struct Row {
            let provider: Provider
            var cells: [String] = []

            init(_ provider: Provider) { self.provider = provider }

            mutating func time(_ name: String, _ act: () async throws -> Void) async throws {
                let began = ContinuousClock.now
                try await act()
                let tenths = (ContinuousClock.now - began) / .milliseconds(100)
                cells.append("\(name) \(tenths.rounded() / 10) s")
            }

            func print() { Swift.print("| \(provider.rawValue) | \(cells.joined(separator: " | ")) |") }
        }
    }
}
