import Basics
import ObjectStorage
import SQLite

/// Merges the sorted items of a listing page with the sorted rows of the same range: at most `rowsEach` rows in one go, so
/// that neither memory nor a transaction grows with the number of removed objects. Unchanged rows are only read.
struct ListingMerge {
    struct Item {
        let component: ByteString
        /// nil: a directory.
        let object: ListedObject?
    }

    struct Outcome {
        /// Rows before this are merged; nil: all to the end of the directory.
        var reached: ByteString?
        var frontier: ByteString = ""
        var isDone: Bool
        var own: DirectoryObject?
    }

    /// The kind of the object at the directory's own key.
    enum DirectoryObject {
        case marker
        /// An object with bytes, possibly a file's, whose headers the directory shows.
        case knownFile
    }

    private enum Change {
        case insert(Item)
        case update(EntryRow, ListedObject)
        case agree(EntryRow)
        case vanish(EntryRow)
    }

    private static let rowsEach = 1024

    let cache: MetadataCache
    let directory: Int64
    let listing: UInt64
    let start: RequestStart
    /// Rows from here on that the page lacks are removed.
    let position: ByteString
    let lower: ByteString
    /// nil: the end of the directory.
    let upper: ByteString?

    /// Removes the items it has merged from the front of `items`. nil when the directory is gone.
    func run(_ items: inout ArraySlice<Item>, _ connection: Connection) throws(SQLiteError) -> Outcome? {
        guard try EntryRow.exists(connection, ino: directory) else {
            return nil
        }
        var own: DirectoryObject?
        if let first = items.first, first.component.isEmpty, let object = first.object {
            if object.version.size == 0 {
                try recordMarker(object, connection)
                items = items.dropFirst()
                own = .marker
            } else if try isKnown(object, connection) {
                own = .knownFile
            }
        }
        let (changes, reached, isDone) = try compare(&items, connection)
        try apply(changes, connection)
        var outcome = Outcome(reached: reached, isDone: isDone, own: own)
        outcome.frontier = try frontier(reached, connection)
        try cache.reap(connection, limit: MetadataCache.reapedWithEach)
        return outcome
    }

    // MARK: Comparing

    private func compare(
        _ items: inout ArraySlice<Item>, _ connection: Connection
    ) throws(SQLiteError) -> (changes: [Change], reached: ByteString?, isDone: Bool) {
        var changes: [Change] = []
        let statement = try connection.prepare(
            "SELECT * FROM entry WHERE parent = ?1 AND component >= ?2 ORDER BY component LIMIT ?3")
        try statement.bind(directory, at: 1)
        try statement.bind(lower, at: 2)
        try statement.bind(Int64(Self.rowsEach), at: 3)
        var count = 0
        var last: ByteString?
        while try statement.step() {
            let component = statement.bytes(1)
            if let upper, component >= upper { break }
            (count, last) = (count + 1, component)
            while let item = items.first, item.component < component {
                changes.append(.insert(item))
                items = items.dropFirst()
            }
            if let item = items.first, item.component == component {
                if let change = reconcile(statement, with: item) { changes.append(change) }
                items = items.dropFirst()
            } else if component >= position {
                changes.append(.vanish(EntryRow(statement)))
            }
        }
        if count == Self.rowsEach, let last { return (changes, last.successor, false) }
        changes += items.map { .insert($0) }
        items = []
        return (changes, upper, true)
    }

    /// The change that an item makes to the row of the same component, usually none.
    private func reconcile(_ row: borrowing Statement, with item: Item) -> Change? {
        let isOurs = !row.isNull(21)
        guard let object = item.object else { return isOurs ? .agree(EntryRow(row)) : nil }
        let version = object.version
        if !isOurs, row.int64(4) == version.size, row.isNull(13), row.optionalText(12) == version.etag.text,
            row.int64(row.isNull(14) ? 8 : 14) == version.modified.seconds,
            row.optionalText(17) == object.storageClass, !object.isSymlink
        {
            return nil
        }
        return .update(EntryRow(row), object)
    }

    // MARK: Applying

    private func apply(_ changes: [Change], _ connection: Connection) throws(SQLiteError) {
        let now = cache.clock.now
        let hasTombstones = try self.hasTombstones(connection)
        for change in changes where !isHeld(change) {
            switch change {
            case .insert(let item):
                if try isOutdated(item.component, connection) { continue }
                if hasTombstones,
                    let tombstone = try Tombstone.find(connection, parent: directory, component: item.component)
                {
                    if tombstone.ours > start.sequence { continue }
                    try Tombstone.delete(connection, parent: directory, component: item.component)
                }
                try insert(item, connection)
            case .update(let row, let object):
                if row.isNewer(than: start, now: now) { continue }
                if try isOutdated(row.component, connection) { continue }
                try update(row, by: object, connection)
            case .agree(var row):
                if row.isNewer(than: start, now: now) { continue }
                guard cache.isSettled(row.checkedAt, for: start) else { continue }
                row.ours = nil
                try row.put(connection)
            case .vanish(let row):
                _ = try cache.removeVanished(row, since: start, now: now, by: listing, connection)
            }
        }
    }

    /// Whether an operation of this host is changing the entry: no listing shows its outcome yet.
    private func isHeld(_ change: Change) -> Bool {
        switch change {
        case .insert(let item): cache.isHeld(item.component, in: directory)
        case .update(let row, _), .agree(let row), .vanish(let row):
            cache.isHeld(row.component, in: directory, row.ino)
        }
    }

    /// Whether a later listing has covered the component already.
    private func isOutdated(_ component: ByteString, _ connection: Connection) throws(SQLiteError) -> Bool {
        try cache.listedAt(component, in: directory, except: listing, connection) > start.at.nanosecondCount
    }

    private func insert(_ item: Item, _ connection: Connection) throws(SQLiteError) {
        let kind = cache.codec.kind(of: item.component, isSymlink: item.object?.isSymlink ?? false)
        // A directory without a marker has no time of its own. The time of the listing that first showed it does not change.
        let attributes = item.object.map { Attributes($0, kind: kind) } ?? Attributes(kind: kind, mtime: start.at)
        let row = EntryRow(
            parent: directory, component: item.component, ino: try cache.sequence.take(connection),
            attributes: attributes, checkedAt: start.at.nanosecondCount, ours: nil,
            abbreviated: cache.codec.abbreviatedName(of: item.component))
        try row.put(connection)
    }

    private func update(
        _ known: EntryRow, by object: ListedObject, _ connection: Connection
    ) throws(SQLiteError) {
        var row = known
        let listed = object.version
        let kind = cache.codec.kind(of: known.component, isSymlink: object.isSymlink)
        if let version = known.attributes.version, version.hasContent(of: listed),
            // For this host's commit the store's time was not known yet, so here a difference shows nothing about the
            // headers.
            known.ours != nil && !isTold(version) || version.isModified(when: listed) || isBefore(version, listed)
        {
            // An item without a time comes from this host's own record of the version and adds nothing; neither does one from
            // a listing that lags behind.
            if listed.modified != .epoch, !isBefore(version, listed) {
                row.attributes.storageClass = object.storageClass
                row.attributes.version?.modified = listed.modified
                if !known.attributes.headersKnown {
                    (row.attributes.mtime, row.attributes.ctime) = (listed.modified, listed.modified)
                    row.keepOwnTimes(of: known)
                }
            }
            if object.isSymlink { row.attributes.kind = .symlink }
            if cache.isSettled(known.checkedAt, for: start) { row.ours = nil }
            guard row.attributes != known.attributes || row.ours != known.ours else { return }
        } else {
            // The listing does not show a symlink that only its headers make one, so a changed object is a file until its
            // headers are read.
            row.attributes = Attributes(object, kind: kind)
            row.checkedAt = start.at.nanosecondCount
            row.staleAt = nil
            row.ours = nil
            try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
        }
        try row.put(connection)
    }

    /// Whether the store's time of this host's version is known, where that version stays marked as this host's for a while.
    private func isTold(_ version: ObjectVersion) -> Bool { cache.listingsLag && version.modified != .epoch }

    /// Whether a listing that lags behind shows the version with its former headers.
    private func isBefore(_ version: ObjectVersion, _ listed: ObjectVersion) -> Bool {
        cache.listingsLag && listed.modified.seconds < version.modified.seconds
    }

    /// Whether the directory has its attributes from this object.
    private func isKnown(_ object: ListedObject, _ connection: Connection) throws(SQLiteError) -> Bool {
        let known = try EntryRow.find(connection, ino: directory)?.attributes.version
        return known.map { $0.hasContent(of: object.version) && $0.isModified(when: object.version) } ?? false
    }

    /// Records the zero-byte object whose key is the directory's own in the directory's entry.
    private func recordMarker(_ object: ListedObject, _ connection: Connection) throws(SQLiteError) {
        guard var row = try EntryRow.find(connection, ino: directory), row.ino != 1 else { return }
        if let ours = row.ours, ours > start.sequence { return }
        if try isOutdated("", connection) || cache.isHeld(row.component, in: row.parent, row.ino) { return }
        var state = try DirectoryRow.find(connection, ino: directory)
        if state.hasMarker != true {
            state.hasMarker = true
            try state.put(connection, ino: directory)
        }
        let listed = object.version
        if let version = row.attributes.version, version.hasContent(of: listed) {
            if version.modified.seconds == listed.modified.seconds || listed.modified == .epoch { return }
            if row.ours != nil || row.attributes.headersKnown == false || version.isModified(when: listed) {
                row.attributes.version = listed
                if !row.attributes.headersKnown { row.attributes.mtime = listed.modified }
                try row.put(connection)
                return
            }
        }
        let size = row.attributes.size
        row.attributes = Attributes(object, kind: .directory)
        row.attributes.size = size
        try row.put(connection)
        try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
    }

    private func hasTombstones(_ connection: Connection) throws(SQLiteError) -> Bool {
        let statement = try connection.prepare("SELECT 1 FROM tombstone WHERE parent = ?1 LIMIT 1")
        try statement.bind(directory, at: 1)
        return try statement.step()
    }

    // MARK: Frontier

    /// The first entry whose shown name depends on components after `reached`: an object or link whose directory may come
    /// later. Its base is a prefix of the last listed component, so few rows are looked up.
    private func frontier(_ reached: ByteString?, _ connection: Connection) throws(SQLiteError) -> ByteString {
        guard let reached, let last = try lastComponent(before: reached, connection) else { return reached ?? "" }
        for count in 1...max(1, last.count) where count <= last.count {
            guard count == last.count || last.bytes[count] < UInt8(ascii: "/") else { continue }
            let base = ByteString(last.bytes.prefix(count))
            for role in [NameCodec.Role.object, .link] {
                guard let component = cache.codec.component(base, role), component < reached else { continue }
                if try EntryRow.exists(connection, parent: directory, component: component) { return component }
            }
        }
        return reached
    }

    private func lastComponent(before bound: ByteString, _ connection: Connection) throws(SQLiteError) -> ByteString? {
        let statement = try connection.prepare(
            "SELECT component FROM entry WHERE parent = ?1 AND component < ?2 ORDER BY component DESC LIMIT 1")
        try statement.bind(directory, at: 1)
        try statement.bind(bound, at: 2)
        return try statement.step() ? statement.bytes(0) : nil
    }
}

extension EntryRow {
    static func exists(_ connection: Connection, ino: Int64) throws(SQLiteError) -> Bool {
        let statement = try connection.prepare("SELECT 1 FROM entry WHERE ino = ?1")
        try statement.bind(ino, at: 1)
        return try statement.step()
    }
}
