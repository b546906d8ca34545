package import Basics
package import ObjectStorage
import SQLite
import Synchronization

/// Answers of the store other than listings. Each is recorded `since` its request began: newer changes of this host stay as
/// they are.
extension MetadataCache {
    /// Records an object or directory that the store has, from a HEAD (with `metadata`) or a listing of one name. A known
    /// entry keeps its inode number.
    ///
    /// Returns the entry that programs now see: a newer change of this host or a later listing stays as it is; nil when that
    /// has removed it. An entry that an operation of this host holds stays as well, unless the answer is to a request of that
    /// operation (`forHolder`).
    /// Throws: `.notDirectory` when the parent is gone.
    @discardableResult
    package func recordRemote(
        _ component: ByteString, in parent: InodeNumber, _ attributes: Attributes, metadata: ObjectMetadata?,
        since start: RequestStart, forHolder: Bool = false
    ) throws(MetadataError) -> Entry? {
        let clock = clock
        let answer: Swift.Result<Entry?, MetadataError> = try write { (connection) throws(SQLiteError) in
            guard try EntryRow.find(connection, ino: parent.row)?.attributes.kind == .directory else {
                return .failure(.notDirectory(parent))
            }
            var row: EntryRow
            let isOutdated = try self.listedAt(component, in: parent.row, connection) > start.at.nanosecondCount
            if let known = try EntryRow.find(connection, parent: parent.row, component: component) {
                row = known
                if !forHolder, self.isHeld(component, in: parent.row, row.ino) {
                    return .success(try self.entry(row, clock, connection))
                }
                if !isOutdated, !row.isNewer(than: start, now: clock.now) {
                    row = try self.replace(row, by: attributes, metadata, at: start, connection)
                }
            } else {
                if isOutdated || !forHolder && self.isHeld(component, in: parent.row) { return .success(nil) }
                if let tombstone = try Tombstone.find(connection, parent: parent.row, component: component) {
                    if tombstone.ours > start.sequence { return .success(nil) }
                    try Tombstone.delete(connection, parent: parent.row, component: component)
                }
                row = EntryRow(
                    parent: parent.row, component: component, ino: try self.sequence.take(connection),
                    attributes: attributes, checkedAt: start.at.nanosecondCount, ours: nil,
                    abbreviated: self.codec.abbreviatedName(of: component))
                try row.put(connection)
                if let metadata { try self.putHeaders(metadata, of: row, connection) }
            }
            if attributes.kind == .directory, attributes.version != nil {
                var state = try DirectoryRow.find(connection, ino: row.ino)
                state.hasMarker = row.attributes.version?.size == 0
                try state.put(connection, ino: row.ino)
            }
            return .success(try self.entry(row, clock, connection))
        }
        return try answer.get()
    }

    /// Records that the store has no object and no directory of this name. Removes the entry of the name, unless it is a
    /// newer change of this host.
    package func recordAbsent(
        _ name: ByteString, in parent: InodeNumber, since start: RequestStart
    ) throws(MetadataError) {
        guard let meaning = codec.meaning(of: name) else { return }
        let now = clock.now
        let isGone = try write { (connection) throws(SQLiteError) in
            guard let row = try self.find(name, meaning, in: parent.row, connection) else { return true }
            return try self.removeVanished(row, since: start, now: now, connection)
        }
        if isGone {
            recollection.withLock { $0.recordMissing(name, in: parent.row, at: start.at.nanosecondCount) }
        }
    }

    /// Records that the store does not have the object of an entry (after a GET or HEAD). True when the entry is gone now,
    /// false when a newer change of this host keeps it.
    @discardableResult
    package func recordGone(_ ino: InodeNumber, since start: RequestStart) throws(MetadataError) -> Bool {
        let now = clock.now
        return try write { (connection) throws(SQLiteError) in
            guard ino != .root, let row = try EntryRow.find(connection, ino: ino.row) else { return true }
            return try self.removeVanished(row, since: start, now: now, connection)
        }
    }

    /// Records that the store still has the version that the entry shows (304, or a successful GET pinned to it).
    package func recordUnchanged(
        _ ino: InodeNumber, _ etag: ETag, since start: RequestStart
    ) throws(MetadataError) {
        try write { (connection) throws(SQLiteError) in
            try connection.run(
                "UPDATE entry SET checked_at = max(checked_at, ?3) WHERE ino = ?1 AND etag = ?2", ino.row, etag.text,
                start.at.nanosecondCount)
        }
    }

    /// Records the headers of a version: the exact mode, owner and times and, for a symlink by its headers, the kind. False,
    /// without a change, when the entry is gone, shows another version by now, or has a pending change of this host.
    @discardableResult
    package func recordHeaders(
        _ ino: InodeNumber, for etag: ETag, _ attributes: Attributes, metadata: ObjectMetadata
    ) throws(MetadataError) -> Bool {
        try write { (connection) throws(SQLiteError) in
            guard var row = try EntryRow.find(connection, ino: ino.row), !row.isPending,
                let version = row.attributes.version, version.etag == etag
            else { return false }
            let known = row
            // The listing's version stays, because the next listing is compared with it.
            row.attributes = attributes
            row.attributes.version = version
            row.keepOwnTimes(of: known)
            row.attributes.headersKnown = true
            row.noteHeaders(at: self.clock.now)
            try row.put(connection)
            try self.putHeaders(metadata, of: row, connection)
            return true
        }
    }

    /// Gives an entry another inode number, because programs that have the former object open keep the former number. nil
    /// when the entry is gone.
    package func renumber(_ ino: InodeNumber) throws(MetadataError) -> Entry? {
        let clock = clock
        return try write { (connection) throws(SQLiteError) in
            guard var row = try EntryRow.find(connection, ino: ino.row), row.attributes.kind != .directory else {
                return nil
            }
            row.ino = try self.sequence.take(connection)
            try row.put(connection)
            try self.moveFormerNames(of: ino.row, to: row.ino, connection)
            try connection.run("UPDATE OR REPLACE headers SET ino = ?2 WHERE ino = ?1", ino.row, row.ino)
            return try self.entry(row, clock, connection)
        }
    }

    // MARK: Pieces

    /// When the newest listing that covered a component began, complete or not; the least number if there is none. An older
    /// answer must not overwrite the row, because the listing makes it count as newer than it is. A listing time in the
    /// future is from before the clock was set back and is ignored.
    func listedAt(
        _ component: ByteString, in directory: Int64, except listing: UInt64? = nil, _ connection: Connection
    ) throws(SQLiteError) -> Int64 {
        let clock = clock
        let complete = try DirectoryRow.find(connection, ino: directory).listedAt.flatMap { $0 <= clock.now ? $0 : nil }
        let partial = clock.listed.at(directory, component, through: component, except: listing, latest: clock.now)
        return max(complete ?? .min, partial ?? .min)
    }

    /// Writes the store's attributes over a known entry and returns the new row.
    private func replace(
        _ known: EntryRow, by attributes: Attributes, _ metadata: ObjectMetadata?, at start: RequestStart,
        _ connection: Connection
    ) throws(SQLiteError) -> EntryRow {
        var row = known
        let isSame = known.attributes.version?.isSame(as: attributes.version) ?? (attributes.version == nil)
        // The existence of a directory shows nothing about its marker, and exact attributes are not replaced by vague ones.
        let isVague = attributes.kind == .directory && attributes.version == nil
        if known.attributes.kind == .directory, known.attributes.headersKnown, let metadata,
            try self.metadata(of: row.ino, connection)?.user == metadata.user
        {
            // The time of a directory's last change may be in this cache only.
            row.attributes.version = attributes.version
        } else if !isVague, !(isSame && known.attributes.headersKnown && !attributes.headersKnown) {
            row.attributes = attributes
            row.keepOwnTimes(of: known)
        }
        if metadata != nil { row.noteHeaders(at: start.at.nanosecondCount) }
        row.checkedAt = start.at.nanosecondCount
        row.staleAt = nil
        // Only the parent's listing confirms that a directory is in its parent.
        if attributes.kind != .directory, !(isSame && listingsLag) { row.ours = nil }
        try row.put(connection)
        if let metadata {
            try putHeaders(metadata, of: row, connection)
        } else if !row.attributes.headersKnown {
            try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
        }
        return row
    }

    /// Removes a row that the store does not have (any more). False when the row stays: it is a newer change of this host, a
    /// directory with such a change below it, a file that is still to be committed, or held by an operation of this host.
    func removeVanished(
        _ row: EntryRow, since start: RequestStart, now: Int64, by listing: UInt64? = nil, _ connection: Connection
    ) throws(SQLiteError) -> Bool {
        if row.isNewer(than: start, now: now) || isHeld(row.component, in: row.parent, row.ino) { return false }
        if try listedAt(row.component, in: row.parent, except: listing, connection) > start.at.nanosecondCount {
            return false
        }
        if row.attributes.kind == .directory {
            if try ancestorsOfOurs(since: start, connection).contains(row.ino) { return false }
        } else if dirty.contains(InodeNumber(row: row.ino)) {
            return false
        }
        try delete(row, connection)
        return true
    }

    /// All directories above changes that a request begun at `start` cannot include.
    func ancestorsOfOurs(since start: RequestStart, _ connection: Connection) throws(SQLiteError) -> Set<Int64> {
        var parents = held.parents
        do {
            let statement = try connection.prepare("SELECT DISTINCT parent FROM entry WHERE ours > ?1")
            try statement.bind(start.sequence, at: 1)
            while try statement.step() { parents.insert(statement.int64(0)) }
        }
        for file in dirty {
            if let row = try EntryRow.find(connection, ino: file.row) { parents.insert(row.parent) }
        }
        var all: Set<Int64> = []
        for parent in parents {
            var current = parent
            while current != 0, all.insert(current).inserted {
                guard let row = try EntryRow.find(connection, ino: current) else { break }
                current = row.parent
            }
        }
        return all
    }
}

extension ObjectVersion {
    /// Whether a listing or HEAD shows this same version. Times are compared to the second, because some stores list
    /// milliseconds and put whole seconds into Last-Modified; a version ID counts where both have one.
    func isSame(as other: ObjectVersion?) -> Bool {
        guard let other, hasContent(of: other) else { return false }
        return modified.seconds == other.modified.seconds
    }

    /// Whether the store's time of this version is the listed one, or is not known: then the first listed time is taken.
    func isModified(when listed: ObjectVersion) -> Bool {
        modified == .epoch || listed.modified == .epoch || modified.seconds == listed.modified.seconds
    }

    /// Whether the bytes are the same, as far as the store shows.
    package func hasContent(of other: ObjectVersion) -> Bool {
        guard etag == other.etag, size == other.size else { return false }
        guard let versionID, let otherID = other.versionID else { return true }
        return versionID == otherID
    }
}
