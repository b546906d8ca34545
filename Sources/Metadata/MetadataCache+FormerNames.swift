import Basics
import SQLite
import Synchronization

/// Names with a suffix that entries had beside other entries that are gone by now.
///
/// `a%%file` is the object `a` beside a directory `a`. Once the directory is removed the object is `a`, but a program that
/// has read `a%%file` in a listing still uses that name: it leads to the object as long as the object is there, also after
/// another program has read the directory.
///
/// Locks: `formerNames`, a leaf. After a crash: the next process of the mount has the rows, the next mount begins with none.
extension MetadataCache {
    /// Call before a row is removed or moved: entries that lose their suffix by that keep the old name as a former one.
    func keepNames(beside row: EntryRow, _ connection: Connection) throws(SQLiteError) {
        let role = codec.role(of: row.component)
        guard codec.style == .escaped, role != .link, !row.component.isEmpty else { return }
        let base = codec.base(of: row.component)
        for other in role == .directory ? [NameCodec.Role.object, .link] : [.link] {
            guard let component = codec.component(base, other),
                let beside = try EntryRow.find(connection, parent: row.parent, component: component)
            else { continue }
            let neighbours = try neighbours(of: beside, connection)
            let name = codec.shownName(of: component, beside: neighbours)
            guard let name, name != codec.shownName(of: component, beside: neighbours.subtracting(.init(role))) else {
                continue
            }
            formerNames.withLock { _ = $0.insert(row.parent) }
            try connection.run("INSERT OR REPLACE INTO former VALUES (?1, ?2, ?3)", row.parent, name, beside.ino)
        }
    }

    /// The entry that had the name; nil when none had, or it has moved.
    func findFormer(_ name: ByteString, in parent: Int64, _ connection: Connection) throws(SQLiteError) -> EntryRow? {
        guard formerNames.withLock({ $0.contains(parent) }) else { return nil }
        let statement = try connection.prepare("SELECT ino FROM former WHERE parent = ?1 AND name = ?2")
        try statement.bind(parent, at: 1)
        try statement.bind(name, at: 2)
        guard try statement.step() else { return nil }
        let row = try EntryRow.find(connection, ino: statement.int64(0))
        return row?.parent == parent ? row : nil
    }

    /// Makes the former names of one entry lead to another; without one, removes them.
    func moveFormerNames(of ino: Int64, to other: Int64?, _ connection: Connection) throws(SQLiteError) {
        if formerNames.withLock({ $0.isEmpty }) { return }
        if let other {
            try connection.run("UPDATE former SET ino = ?2 WHERE ino = ?1", ino, other)
        } else {
            try connection.run("DELETE FROM former WHERE ino = ?1", ino)
        }
    }

    /// At opening: loads which directories have former names, or deletes all former names.
    func loadFormerNames(keeping: Bool, _ connection: Connection) throws(SQLiteError) {
        if !keeping { return try connection.run("DELETE FROM former") }
        let statement = try connection.prepare("SELECT DISTINCT parent FROM former")
        while try statement.step() {
            let parent = statement.int64(0)
            formerNames.withLock { _ = $0.insert(parent) }
        }
    }
}
