package import Basics
import SQLite
import Synchronization

/// Names and entries that operations of this host are changing at the store.
///
/// While such an operation runs, the store may show an intermediate state: both names of a rename, or neither.
/// `MetadataCache` does not change the rows of held names and entries, whatever the store answers.
///
/// Locks: its own mutex, a leaf. After a crash: nothing is held.
final class HeldNames: Sendable {
    /// A base in its directory: the directory, the object and the link of that base are held together.
    struct Name: Hashable, Sendable {
        let parent: Int64
        let base: ByteString
    }

    private struct State {
        var names: [Name: Int] = [:]
        var inodes: [Int64: Int] = [:]
        /// Held names and inodes for which an answer of the store was ignored.
        var missedNames: Set<Name> = []
        var missedInodes: Set<Int64> = []
    }

    private let state = Mutex(State())

    func begin(_ names: [Name], _ inodes: [Int64]) {
        state.withLock { state in
            for name in names { state.names[name, default: 0] += 1 }
            for ino in inodes { state.inodes[ino, default: 0] += 1 }
        }
    }

    /// Ends the holds. Returns those that no operation holds any more and for which an answer was ignored.
    func end(_ names: [Name], _ inodes: [Int64]) -> (names: [Name], inodes: [Int64]) {
        state.withLock { state in
            var missed: (names: [Name], inodes: [Int64]) = ([], [])
            for name in names {
                let count = (state.names[name] ?? 1) - 1
                state.names[name] = count > 0 ? count : nil
                if count == 0, state.missedNames.remove(name) != nil { missed.names.append(name) }
            }
            for ino in inodes {
                let count = (state.inodes[ino] ?? 1) - 1
                state.inodes[ino] = count > 0 ? count : nil
                if count == 0, state.missedInodes.remove(ino) != nil { missed.inodes.append(ino) }
            }
            return missed
        }
    }

    /// With `missing`, an answer of the store about a held name or entry is ignored, and this is remembered.
    func contains(_ name: Name?, _ ino: Int64?, missing: Bool = false) -> Bool {
        state.withLock { state in
            if state.names.isEmpty, state.inodes.isEmpty { return false }
            let (byName, byIno) = (name.flatMap { state.names[$0] } != nil, ino.flatMap { state.inodes[$0] } != nil)
            if missing, byName, let name { state.missedNames.insert(name) }
            if missing, byIno, let ino { state.missedInodes.insert(ino) }
            return byName || byIno
        }
    }

    /// Directories in which names are held.
    var parents: Set<Int64> { state.withLock { Set($0.names.keys.map(\.parent)) } }
}

/// Names and entries from `MetadataCache.hold` to `release`.
package struct Hold: Sendable {
    let names: [HeldNames.Name]
    let inodes: [Int64]
    /// In nanoseconds since 1970.
    let since: Int64
}

extension MetadataCache {
    /// From now on no answer of the store changes these entries or names. Call `release` when the store's part of the
    /// operation has succeeded or failed and the rows show which.
    ///
    /// Requires: until then the caller waits for no task that requests them from the store.
    package func hold(_ inodes: [InodeNumber], _ names: [(parent: InodeNumber, name: ByteString)] = []) -> Hold {
        let bases = names.compactMap { place -> HeldNames.Name? in
            switch codec.meaning(of: place.name) {
            case .plain(let base), .object(let base), .link(let base):
                HeldNames.Name(parent: place.parent.row, base: base)
            case .ownObject: HeldNames.Name(parent: place.parent.row, base: "")
            // An abbreviated name does not yield its base: its entry is held by inode number.
            case .abbreviated, nil: nil
            }
        }
        let hold = Hold(names: bases, inodes: inodes.map(\.row), since: clock.now)
        held.begin(hold.names, hold.inodes)
        return hold
    }

    /// Ends a hold. If an answer about a name or entry was ignored, and the operation did not change it, its next use asks
    /// the store.
    package func release(_ hold: Hold) {
        let missed = held.end(hold.names, hold.inodes)
        if missed.names.isEmpty, missed.inodes.isEmpty { return }
        let now = clock.now
        invalidatedAt.store(now, ordering: .relaxed)
        _ = try? write { (connection) throws(SQLiteError) in
            for ino in missed.inodes {
                try connection.run(
                    "UPDATE entry SET stale_at = ?2 WHERE ino = ?1 AND checked_at < ?3", ino, now, hold.since)
            }
            for name in missed.names { try self.distrust(name, changedBefore: hold.since, now, connection) }
        }
    }

    private func distrust(
        _ name: HeldNames.Name, changedBefore since: Int64, _ now: Int64, _ connection: Connection
    ) throws(SQLiteError) {
        var isKnown = false
        for role in NameCodec.Role.allCases {
            guard let component = codec.component(name.base, role) else { continue }
            let removal = try Tombstone.find(connection, parent: name.parent, component: component)
            let exists = try EntryRow.exists(connection, parent: name.parent, component: component)
            isKnown = isKnown || exists || removal.map { $0.removedAt >= since } ?? false
            try connection.run(
                "UPDATE entry SET stale_at = ?3 WHERE parent = ?1 AND component = ?2 AND checked_at < ?4", name.parent,
                component, now, since)
        }
        if !isKnown { try Self.markStale(name.parent, now, connection) }
    }

    /// Whether an operation of this host is changing the entry.
    package func isHeld(_ entry: Entry) -> Bool {
        held.contains(
            HeldNames.Name(parent: entry.parent.row, base: codec.base(of: entry.component)), entry.ino.row)
    }

    /// Whether an operation of this host is changing an entry that the name may lead to.
    package func isHeld(_ name: ByteString, in parent: InodeNumber) -> Bool {
        switch codec.meaning(of: name) {
        case .plain(let base), .object(let base), .link(let base):
            held.contains(HeldNames.Name(parent: parent.row, base: base), nil)
        case .ownObject: held.contains(HeldNames.Name(parent: parent.row, base: ""), nil)
        case .abbreviated, nil: false
        }
    }

    /// Whether an answer of the store about a component must be ignored.
    func isHeld(_ component: ByteString, in parent: Int64, _ ino: Int64? = nil) -> Bool {
        held.contains(HeldNames.Name(parent: parent, base: codec.base(of: component)), ino, missing: true)
    }
}
