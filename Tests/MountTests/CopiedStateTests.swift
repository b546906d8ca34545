import Foundation
import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// State directories that were copied, as with the disk of a machine or from a backup: two mounts with one journal.
    @Suite struct CopiedStates {
        /// Files that are acknowledged and not stored, and a copy of the state directory from that moment. `old` and `kept` replace
        /// objects, `new` is a new file, `big` a new one whose bytes are not in the journal.
        private func prepare(_ world: World, _ store: Store) async throws {
            try await world.sh("printf old >$T/text")
            for name in ["old", "kept"] { try await world.outside("put", name, world.scratch.path("text")) }
            try await world.mount(["durable=local", "state-dir=\(world.scratch.path("state"))"])
            try await store.setFaults("op=PutObject,kind=status:503")
            try await world.sh(
                """
                cat old kept >/dev/null; head -c 300000 /dev/zero >$T/big
                printf changed >old; printf changed >kept; printf new >new; cp $T/big big
                cp -a $T/state $T/copied
                """)
        }

        private func mountCopy(_ world: World, warning: String? = nil) async throws {
            try await world.mount(
                ["durable=local", "state-dir=\(world.scratch.path("copied"))"], cache: "another", warning: warning)
        }

        /// The original has stored them, and a program has removed or replaced them since.
        @Test(.rule("crash.copy"), .timeLimit(.minutes(5))) func whatTheOriginalHasRemovedDoesNotComeBack() async throws
        {
            try await withStore { world, store in
                try await prepare(world, store)
                try await store.setFaults()
                try await world.sh("rm new big old; printf again >kept")
                try await world.unmount()
                let bucket = try await world.outside("keys")
                try await mountCopy(world, warning: "is a copy of another state directory")
                try await world.sh("test ! -e new; test ! -e big; test ! -e old; test \"$(cat kept)\" = again")
                let listed = try await world.pailfs(["recover", "list", world.mountpoint])
                for name in ["new", "big", "old", "kept"] { #expect(listed.output.contains(name), "\(listed)") }
                let saved = try await world.pailfs(["recover", "save", world.scratch.path("saved"), world.mountpoint])
                #expect(saved.succeeded, "\(saved)")
                try await world.sh(
                    "cmp $T/saved/big $T/big; test \"$(cat $T/saved/new)\" = new; test \"$(cat $T/saved/old)\" = changed"
                )
                try await world.unmount()
                #expect(try await world.outside("keys") == bucket)
                #expect(try await world.outside("get", "kept") == "again")
                // The copy is an original from now on, and does not store them either.
                try await mountCopy(world)
                let again = try await world.pailfs(["recover", "list", world.mountpoint])
                #expect(again.output.contains("new"), "\(again)")
                let commit = try await world.pailfs(["recover", "commit", world.mountpoint, "new"])
                #expect(commit.succeeded, "\(commit)")
                #expect(try await world.outside("get", "new") == "new")
                try await world.unmount()
            }
        }

        /// The original stores nothing any more. What is to replace an object that is still the same cannot have been stored.
        @Test(.rule("crash.copy"), .timeLimit(.minutes(5))) func whatCannotHaveBeenStoredIsStored() async throws {
            try await withStore { world, store in
                try await prepare(world, store)
                world.killMount()
                try await world.unmount()
                try await store.setFaults()
                try await mountCopy(world, warning: "2 files of its journal")
                try await world.unmount()
                for name in ["old", "kept"] { #expect(try await world.outside("get", name) == "changed") }
                #expect(try await world.outside("keys").contains("new") == false)
            }
        }
    }
}
