package import Basics
package import ObjectStorage
import SQLite
import Synchronization

/// This host's own changes. Each takes a number greater than that of any request begun before.
extension MetadataCache {
    /// Adds an entry under a new inode number, and deletes a tombstone of the same component. A new directory is empty, so it
    /// counts as completely listed. With `dating` the entry's ctime becomes the time of its directory (`date`).
    ///
    /// Throws: `.exists` when a live entry has the component, `.notDirectory` when the parent is none (any more),
    /// `.invalidName` when component and kind do not fit.
    @discardableResult
    package func create(
        _ component: ByteString, in parent: InodeNumber, _ attributes: Attributes, metadata: ObjectMetadata? = nil,
        pending: Bool, dating: Bool = false
    ) throws(MetadataError) -> Entry {
        guard fits(component, attributes.kind) else { throw .invalidName }
        let clock = clock
        // A directory, or an object beside a link, may take the plain name of another entry.
        let change: RecentEntries.Change =
            attributes.kind == .file && codec.linkSuffix == nil ? .entry(parent.row) : .everything
        return try decide(change) { (connection) throws(SQLiteError) in
            guard try self.isDirectory(parent.row, connection) else { return .failure(.notDirectory(parent)) }
            if let row = try EntryRow.find(connection, parent: parent.row, component: component) {
                return .failure(.exists(InodeNumber(row: row.ino)))
            }
            let number = try self.sequence.take(connection)
            let row = EntryRow(
                parent: parent.row, component: component, ino: number, attributes: attributes, checkedAt: clock.now,
                ours: pending ? pendingChange : number, abbreviated: self.codec.abbreviatedName(of: component))
            try row.put(connection)
            if attributes.kind == .directory {
                if listingsLag,
                    let removal = try Tombstone.find(connection, parent: parent.row, component: component),
                    removal.ours != pendingChange
                {
                    // The removal of the former tree still counts: a tombstone with an empty component records it
                    // (`recentChanges`).
                    try removal.put(connection, parent: number, component: "")
                }
                let state = DirectoryRow(listedAt: clock.now, hasMarker: attributes.version != nil)
                try state.put(connection, ino: number)
            }
            try Tombstone.delete(connection, parent: parent.row, component: component)
            if let metadata { try self.putHeaders(metadata, of: row, connection) }
            if dating { try self.date(parent.row, attributes.ctime, clock, connection) }
            return .success(try self.entry(row, clock, connection))
        }
    }

    /// Sets a directory's mtime and ctime after an entry was added or removed, in this cache only. A directory that is gone
    /// is no error.
    package func date(_ directory: InodeNumber, _ time: Timestamp) throws(MetadataError) {
        let clock = clock
        try write { (connection) throws(SQLiteError) in try self.date(directory.row, time, clock, connection) }
        updates.add(1, ordering: .releasing)
    }

    private func date(
        _ directory: Int64, _ time: Timestamp, _ clock: Clock, _ connection: Connection
    ) throws(SQLiteError) {
        // A pending change stays pending. The marker's time stays as it was.
        try connection.run(
            """
            UPDATE entry SET mtime = ?2, mtime_ns = ?3, ctime = NULL, ctime_ns = NULL, checked_at = ?4, stale_at = NULL,
                modified = coalesce(modified, mtime), modified_ns = iif(modified IS NULL, mtime_ns, modified_ns),
                ours = CASE ours WHEN ?5 THEN ?5 ELSE ?6 END
            WHERE ino = ?1
            """, directory, time.seconds, Int64(time.nanoseconds), clock.now, pendingChange,
            try sequence.take(connection))
    }

    /// Replaces an entry's attributes by those of a change of this host. With `metadata` the stored headers are replaced too;
    /// without it they stay. An inode number that is gone is no error: the file was removed while it was written.
    package func update(
        _ ino: InodeNumber, _ attributes: Attributes, metadata: ObjectMetadata? = nil, pending: Bool
    ) throws(MetadataError) {
        let clock = clock
        // The entries of a directory depend on its row.
        try write(attributes.kind == .directory ? .everything : .entry(ino.row)) { (connection) throws(SQLiteError) in
            try self.update(ino, attributes, metadata, pending: pending, clock, connection)
        }
        updates.add(1, ordering: .releasing)
    }

    /// The same for many entries that are in the store already, in one transaction; their headers stay.
    package func update(_ changes: [(ino: InodeNumber, attributes: Attributes)]) throws(MetadataError) {
        if changes.isEmpty { return }
        let clock = clock
        try write { (connection) throws(SQLiteError) in
            for change in changes {
                try self.update(change.ino, change.attributes, nil, pending: false, clock, connection)
            }
        }
        updates.add(1, ordering: .releasing)
    }

    private func update(
        _ ino: InodeNumber, _ attributes: Attributes, _ metadata: ObjectMetadata?, pending: Bool, _ clock: Clock,
        _ connection: Connection
    ) throws(SQLiteError) {
        guard var row = try EntryRow.find(connection, ino: ino.row), row.ino != 1 || !pending else { return }
        row.attributes = attributes
        row.checkedAt = clock.now
        row.staleAt = nil
        row.ours = pending ? pendingChange : try sequence.take(connection)
        row.isMoved = row.isMoved && pending
        if metadata != nil { row.noteHeaders(at: clock.now) }
        try row.put(connection)
        if let metadata { try putHeaders(metadata, of: row, connection) }
        if attributes.kind == .directory {
            var state = try DirectoryRow.find(connection, ino: row.ino)
            state.hasMarker = attributes.version?.size == 0
            try state.put(connection, ino: row.ino)
        }
    }

    /// Removes an entry and leaves a tombstone, so that older listings do not restore it. With `pending`, while the store has
    /// not removed it yet, no listing does until `endRemoval`. The rows below a directory are removed with it. An inode
    /// number that is gone is no error.
    package func remove(_ ino: InodeNumber, pending: Bool = false) throws(MetadataError) {
        let clock = clock
        try write { (connection) throws(SQLiteError) in
            guard ino != .root, let row = try EntryRow.find(connection, ino: ino.row) else { return }
            try self.delete(row, connection)
            let tombstone = Tombstone(
                removedAt: clock.now, ours: pending ? pendingChange : try self.sequence.take(connection))
            try tombstone.put(connection, parent: row.parent, component: row.component)
            try self.reap(connection, limit: Self.reapedWithEach)
        }
    }

    /// The store has carried out a pending removal (or the pending removal of a rename's source): the tombstone is no longer
    /// pending.
    package func endRemoval(of component: ByteString, in parent: InodeNumber) throws(MetadataError) {
        let clock = clock
        try write { (connection) throws(SQLiteError) in
            guard let tombstone = try Tombstone.find(connection, parent: parent.row, component: component),
                tombstone.ours == pendingChange
            else { return }
            let settled = Tombstone(removedAt: clock.now, ours: try self.sequence.take(connection))
            try settled.put(connection, parent: parent.row, component: component)
        }
    }

    /// The same for a key, whether the cache has its directory or not.
    package func endRemoval(of key: ByteString) throws(MetadataError) {
        var directory = InodeNumber.root
        let components = Self.components(of: key)
        for component in components.dropLast() {
            guard let known = try child(component, of: directory) else { return }
            directory = known.ino
        }
        if let component = components.last { try endRemoval(of: component, in: directory) }
    }

    /// Moves an entry in one transaction; the rows below a directory move with it at no cost. A live entry at the target is
    /// replaced; if that is a directory, the caller knows that it is empty. The source gets a tombstone, `pending` as in
    /// `remove`. A pending entry stays pending.
    ///
    /// Throws: `.noSuchEntry`, `.notDirectory` for the new parent, `.intoItself`, `.invalidName`.
    @discardableResult
    package func rename(
        _ ino: InodeNumber, to parent: InodeNumber, _ component: ByteString, pending: Bool = false
    ) throws(MetadataError) -> Entry {
        let clock = clock
        return try decide { (connection) throws(SQLiteError) -> Swift.Result<Entry, MetadataError> in
            guard ino != .root, var row = try EntryRow.find(connection, ino: ino.row) else {
                return .failure(.noSuchEntry(ino))
            }
            guard self.fits(component, row.attributes.kind) else { return .failure(.invalidName) }
            guard try self.isDirectory(parent.row, connection) else { return .failure(.notDirectory(parent)) }
            if (row.parent, row.component) == (parent.row, component) {
                return .success(try self.entry(row, clock, connection))
            }
            if row.attributes.kind == .directory {
                guard try !self.ancestors(of: parent.row, connection).contains(row.ino) else {
                    return .failure(.intoItself)
                }
                try self.supersedeListings(below: row, movingTo: parent.row, connection)
                self.treeChanged.store(true, ordering: .relaxed)
            }
            try self.moveFormerNames(of: row.ino, to: nil, connection)
            if let replaced = try EntryRow.find(connection, parent: parent.row, component: component) {
                // A former name of the replaced file leads to the new one.
                try self.moveFormerNames(of: replaced.ino, to: row.ino, connection)
                try self.delete(replaced, connection)
            }
            try self.keepNames(beside: row, connection)
            let number = try self.sequence.take(connection)
            try Self.deleteRow(row, connection)
            let tombstone = Tombstone(removedAt: clock.now, ours: pending ? pendingChange : number)
            try tombstone.put(connection, parent: row.parent, component: row.component)
            try Tombstone.delete(connection, parent: parent.row, component: component)
            (row.parent, row.component) = (parent.row, component)
            row.abbreviated = self.codec.abbreviatedName(of: component)
            row.isMoved = row.isPending
            row.ours = row.isPending ? pendingChange : number
            row.checkedAt = clock.now
            row.staleAt = nil
            try row.put(connection)
            try self.reap(connection, limit: Self.reapedWithEach)
            return .success(try self.entry(row, clock, connection))
        }
    }

    /// `refresh`: the next use asks the store. Pending changes of this host stay. With `subtree` also every row below, which
    /// reads each row there, one directory at a time.
    package func invalidate(_ ino: InodeNumber, subtree: Bool) throws(MetadataError) {
        let now = clock.now
        invalidatedAt.store(now, ordering: .relaxed)
        try write { (connection) throws(SQLiteError) in
            try connection.run("UPDATE entry SET stale_at = ?2 WHERE ino = ?1", ino.row, now)
            try Self.markStale(ino.row, now, connection)
        }
        guard subtree else { return }
        var directories = [ino.row]
        // In a damaged file a directory may be below itself.
        var seen: Set = [ino.row]
        while let directory = directories.popLast() {
            let below = try write { (connection) throws(SQLiteError) in
                try Self.markStale(directory, now, connection)
                let statement = try connection.prepare("SELECT ino FROM entry WHERE parent = ?1 AND kind = 1")
                try statement.bind(directory, at: 1)
                var found: [Int64] = []
                while try statement.step() { found.append(statement.int64(0)) }
                return found
            }
            directories += below.filter { seen.insert($0).inserted }
        }
    }

    /// The store may have another object at `key` than the cache: the next use of its name asks the store. Costs a look-up
    /// for each directory above it; for the key of a directory also `invalidate` of the rows below it.
    package func distrust(_ key: ByteString) throws(MetadataError) {
        let now = clock.now
        invalidatedAt.store(now, ordering: .relaxed)
        let tree = try write { (connection) throws(SQLiteError) -> Int64? in
            var directory: Int64 = 1
            for component in Self.components(of: key) {
                // The listings of the directories on the way no longer count, as they cover this name as well.
                try Self.markStale(directory, now, connection)
                guard let row = try EntryRow.find(connection, parent: directory, component: component) else {
                    return nil
                }
                try connection.run("UPDATE entry SET stale_at = ?2 WHERE ino = ?1", row.ino, now)
                guard row.attributes.kind == .directory else { return nil }
                directory = row.ino
            }
            return directory
        }
        if let tree, tree != 1 { try invalidate(InodeNumber(row: tree), subtree: true) }
    }

    /// Adds an entry for a file that only the journal has, and for the directories above it, whatever the cache has there.
    /// All rows made here are pending.
    package func place(
        _ key: ByteString, _ attributes: Attributes, metadata: ObjectMetadata
    ) throws(MetadataError) -> Entry {
        var directory = InodeNumber.root
        let components = Self.components(of: key)
        for component in components.dropLast() {
            if let known = try child(component, of: directory) {
                directory = known.ino
            } else {
                let made = Attributes(kind: .directory, mtime: time.now())
                directory = try create(component, in: directory, made, pending: true).ino
                // The bucket may have more entries there.
                try invalidate(directory, subtree: false)
            }
        }
        guard let name = components.last else { throw .invalidName }
        if let known = try child(name, of: directory) {
            try update(known.ino, attributes, metadata: metadata, pending: true)
        } else {
            try create(name, in: directory, attributes, metadata: metadata, pending: true)
        }
        guard let entry = try child(name, of: directory) else { throw .notDirectory(directory) }
        return entry
    }

    /// The entry at `key`, whether fresh or not.
    package func entry(at key: ByteString) throws(MetadataError) -> Entry? {
        var directory = InodeNumber.root
        var found: Entry?
        for component in Self.components(of: key) {
            guard let known = try child(component, of: directory) else { return nil }
            (directory, found) = (known.ino, known)
        }
        return found
    }

    /// Files whose changes wait for a commit.
    package func pendingFiles() throws(MetadataError) -> [InodeNumber] {
        try read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare(
                "SELECT ino FROM entry WHERE ours = 9223372036854775807 AND kind = 0")
            var found: [InodeNumber] = []
            while try statement.step() { found.append(InodeNumber(row: statement.int64(0))) }
            return found
        }
    }

    /// After a commit below them: the directories that `place` made exist in the bucket now, so they are no longer pending.
    package func confirmDirectories(above ino: InodeNumber) throws(MetadataError) {
        var current = try entry(ino)?.parent ?? .root
        while current != .root, let entry = try entry(current), entry.isPending {
            try update(current, entry.attributes, pending: false)
            current = entry.parent
        }
    }

    private func child(_ component: ByteString, of directory: InodeNumber) throws(MetadataError) -> Entry? {
        let clock = clock
        return try read { (connection) throws(SQLiteError) in
            guard let row = try EntryRow.find(connection, parent: directory.row, component: component) else {
                return nil
            }
            return try self.entry(row, clock, connection)
        }
    }

    /// The components of a key, each directory's with its slash.
    static func components(of key: ByteString) -> [ByteString] {
        var components: [ByteString] = []
        var start = 0
        for (index, byte) in key.bytes.enumerated() where byte == UInt8(ascii: "/") {
            components.append(ByteString(key.bytes[start...index]))
            start = index + 1
        }
        if start < key.count { components.append(ByteString(key.bytes[start...])) }
        return components
    }

    // MARK: Pieces

    /// Runs a transaction that can refuse before it has written.
    private func decide<Result>(
        _ change: RecentEntries.Change = .everything,
        _ body: (Connection) throws(SQLiteError) -> Swift.Result<Result, MetadataError>
    ) throws(MetadataError) -> Result {
        try write(change, body).get()
    }

    static func markStale(_ directory: Int64, _ now: Int64, _ connection: Connection) throws(SQLiteError) {
        try connection.run(
            """
            INSERT INTO directory (ino, stale_at) SELECT ?1, ?2 WHERE EXISTS
                (SELECT 1 FROM entry WHERE ino = ?1 AND kind = 1)
            ON CONFLICT (ino) DO UPDATE SET stale_at = ?2
            """, directory, now)
    }

    private func fits(_ component: ByteString, _ kind: EntryKind) -> Bool {
        switch codec.role(of: component) {
        case .directory: kind == .directory
        case .link: kind == .symlink
        // A symlink by its headers, or one of the store's own kind.
        case .object: kind != .directory
        }
    }

    private func isDirectory(_ ino: Int64, _ connection: Connection) throws(SQLiteError) -> Bool {
        try EntryRow.find(connection, ino: ino)?.attributes.kind == .directory
    }

    func entry(_ row: EntryRow, _ clock: Clock, _ connection: Connection) throws(SQLiteError) -> Entry {
        let name = try codec.shownName(of: row.component, beside: neighbours(of: row, connection))
        return entry(row, name: name ?? "", in: try DirectoryRow.find(connection, ino: row.parent), clock)
    }

    /// A directory and the directories above it, up to the root.
    func ancestors(of directory: Int64, _ connection: Connection) throws(SQLiteError) -> Set<Int64> {
        var seen: Set<Int64> = []
        var current = directory
        while current != 0, seen.insert(current).inserted {
            guard let row = try EntryRow.find(connection, ino: current) else { break }
            current = row.parent
        }
        return seen
    }

    /// Stored headers belong to the version that the entry shows: code that changes the version replaces or removes them.
    func putHeaders(_ metadata: ObjectMetadata, of row: EntryRow, _ connection: Connection) throws(SQLiteError) {
        try connection.run(
            "INSERT OR REPLACE INTO headers VALUES (?1, ?2)", row.ino, StoredHeaders.encode(metadata))
    }
}
