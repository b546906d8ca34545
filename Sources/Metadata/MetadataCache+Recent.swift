import Basics
package import ObjectStorage
import SQLite

extension MetadataCache {
    /// A write or removal by this host that listings may not show yet. The removal of a directory stands for everything below
    /// it, whose rows are gone.
    private struct RecentChange: Hashable, Sendable {
        let key: ObjectKey
        /// nil: the object was removed.
        let object: ListedObject?
        let at: Timestamp
    }

    /// The newest changes of this process or an earlier one, in the order of their times; at most about `limit`. Objects that
    /// moved with a renamed directory are not included.
    private func recentChanges(limit: Int) throws(MetadataError) -> [RecentChange] {
        guard listingsLag else { return [] }
        let now = clock.now
        let since = unsettled(at: now)
        return try read { (connection) throws(SQLiteError) in
            try connection.snapshot { () throws(SQLiteError) in
                let changes = try self.recentWrites(since, now, limit, connection)
                return try (changes + self.recentRemovals(since, now, limit, connection)).sorted { $0.at < $1.at }
            }
        }
    }

    /// Passes recent changes, also those of an earlier process, to a store whose listings lag behind.
    package func remind(_ store: any ObjectStore) {
        guard let overlaid = store as? OverlaidStore else { return }
        // If the changes cannot be read, the store's listings are used as they are.
        for change in (try? recentChanges(limit: overlaid.recent.capacity)) ?? [] {
            overlaid.recent.remember(change.key, change.object, at: change.at)
        }
    }

    private func recentWrites(
        _ since: Int64, _ now: Int64, _ limit: Int, _ connection: Connection
    ) throws(SQLiteError) -> [RecentChange] {
        var rows: [EntryRow] = []
        do {
            let statement = try connection.prepare(
                """
                SELECT * FROM entry WHERE ours IS NOT NULL AND ours < ?1 AND checked_at > ?2 AND checked_at <= ?3
                ORDER BY ours DESC LIMIT ?4
                """)
            try statement.bind(pendingChange, at: 1)
            try statement.bind(since, at: 2)
            try statement.bind(now, at: 3)
            try statement.bind(Int64(limit), at: 4)
            while try statement.step() { rows.append(EntryRow(statement)) }
        }
        var changes: [RecentChange] = []
        for row in rows {
            guard let version = row.attributes.version, let key = try key(of: row.ino, generation: nil, connection),
                !key.isEmpty
            else { continue }
            let object = ListedObject(
                key: ObjectKey(key), version: version, storageClass: row.attributes.storageClass)
            changes.append(
                RecentChange(key: object.key, object: object, at: Timestamp(nanosecondCount: row.checkedAt)))
        }
        return changes
    }

    private func recentRemovals(
        _ since: Int64, _ now: Int64, _ limit: Int, _ connection: Connection
    ) throws(SQLiteError) -> [RecentChange] {
        var rows: [(parent: Int64, component: ByteString, at: Int64)] = []
        do {
            let statement = try connection.prepare(
                """
                SELECT parent, component, removed_at FROM tombstone
                WHERE ours < ?1 AND removed_at > ?2 AND removed_at <= ?3 ORDER BY removed_at DESC LIMIT ?4
                """)
            try statement.bind(pendingChange, at: 1)
            try statement.bind(since, at: 2)
            try statement.bind(now, at: 3)
            try statement.bind(Int64(limit), at: 4)
            while try statement.step() { rows.append((statement.int64(0), statement.bytes(1), statement.int64(2))) }
        }
        var changes: [RecentChange] = []
        for row in rows {
            guard let parent = try key(of: row.parent, generation: nil, connection) else { continue }
            let key = parent + row.component
            if key.isEmpty { continue }
            changes.append(
                RecentChange(key: ObjectKey(key), object: nil, at: Timestamp(nanosecondCount: row.at)))
        }
        return changes
    }
}
