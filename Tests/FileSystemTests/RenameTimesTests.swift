import Basics
import FileSystem
import Metadata
import TestSupport
import Testing

/// The times of a renamed file whose object has none stored, because another program uploaded it. The copy is newer than the
/// object was.
@Suite struct RenameTimesTests {
    enum Look: CaseIterable { case list, stat, read, restart }

    /// For how long the mount believes what the store said.
    enum Trust: CaseIterable { case minute, none }

    @Test(.rule("attr.mtime", "attr.ctime"), arguments: Look.allCases, Trust.allCases)
    func aRenameKeepsTheTimeThatTheStoreHadOfTheFile(_ look: Look, _ trust: Trust) async throws {
        for (durability, from, to) in [
            (.remote, "f", "g"), (.remote, "d", "e"), (.local, "f", "g"), (.local, "d", "e"),
        ]
            as [(MountPolicy.Durability, String, String)]
        {
            let tree = try MountedTree(ttl: trust == .none ? .zero : .seconds(60), durability: durability)
            tree.store.setObject("f", [1])
            tree.store.setObject("d/inner", [1])
            let file = { (top: String) in top.count == 1 && ["d", "e"].contains(top) ? top + "/inner" : top }
            let modified = try await tree.find(file(from)).modified
            tree.time.advance(by: .seconds(10))
            try await tree.rename(from, to: to)
            let changed = try await tree.find(file(to)).changed
            try await tree.remount()
            for _ in 0..<2 {
                tree.time.advance(by: .seconds(100))
                switch look {
                case .list: _ = try await tree.names(from == "f" ? "" : "e")
                case .stat: break
                case .read: _ = try await tree.load(file(to))
                case .restart: try await tree.restart()
                }
                let found = try await tree.find(file(to))
                #expect(found.modified == modified)
                #expect(found.changed == changed)
            }
        }
    }

    @Test(.rule("attr.mtime")) func theSameBytesThatAnotherHostStoresLaterAreNewer() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1])
        let modified = try await tree.find("f").modified
        tree.time.advance(by: .seconds(10))
        try await tree.rename("f", to: "g")
        tree.time.advance(by: .seconds(100))
        tree.store.setObject("g", [1])
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.find("g").modified >= modified + .seconds(110))
    }
}
