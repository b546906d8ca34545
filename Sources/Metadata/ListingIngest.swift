package import Basics
package import ObjectStorage
import SQLite
import Synchronization

/// Records one listing of one directory in the cache, page by page.
///
/// Made by `MetadataCache.beginListing` before the first request is sent. One task adds the pages in order; any thread may
/// read `frontier`. Each page is one transaction or several. A listing that is dropped halfway leaves good rows and marks
/// nothing complete.
package final class ListingIngest: Sendable {
    /// Which part of the directory is listed.
    package enum Scope: Sendable, Hashable {
        case all
        /// Components after this one (`ListRequest.startAfter`).
        case after(ByteString)
        /// Components with this prefix (`ListRequest.prefix` longer than the directory's key).
        case prefix(ByteString)
    }

    private struct Progress {
        /// All components before this are as the store has them; later ones were not listed yet.
        var position: ByteString
        var frontier: ByteString?
        var isAtEnd = false
        var own: ListingMerge.DirectoryObject?
    }

    package let directory: InodeNumber
    /// The directory's key when the listing began: the prefix to list.
    package let key: ByteString
    package let scope: Scope
    package let start: RequestStart

    private let cache: MetadataCache
    private let number: UInt64
    private let running: RunningListing
    private let progress: Mutex<Progress>

    init(
        _ directory: InodeNumber, key: ByteString, scope: Scope, start: RequestStart, isDeep: Bool, cache: MetadataCache
    ) {
        (self.directory, self.key, self.scope, self.start, self.cache) = (directory, key, scope, start, cache)
        number = cache.listingNumbers.wrappingAdd(1, ordering: .relaxed).newValue
        running = RunningListing(directory: directory.row, isDeep: isDeep)
        progress = Mutex(Progress(position: scope.lower, frontier: scope.lower))
        cache.listings.withLock { [number, running] in $0[number] = running }
    }

    deinit { cache.listings.withLock { [number] in $0[number] = nil } }

    /// Entries with a component before this are final, including their names; nil after the last page, when all are.
    ///
    /// It can be less than the last listed component: whether the object `a` is shown as `a` or `a%%file` depends on `a/`,
    /// which comes after `a-1`, `a.txt` and their like.
    package var frontier: ByteString? { progress.withLock { $0.frontier } }

    /// Whether the directory was renamed or removed since the listing began; for a deep listing, also whether one below it
    /// was renamed.
    package var isSuperseded: Bool { running.isSuperseded }

    /// The only reader of the directory has read the rows before this component: where space is short they may be forgotten
    /// before the listing ends. nil revokes that for the rows that are still there.
    package func release(before component: ByteString?) { running.release(before: component) }

    /// Rows before this component may have been forgotten; nil: every row of this listing is there.
    package var forgotten: ByteString? { running.forgotten }

    /// Adds the next page: inserts and changes rows, keeps inode numbers, removes rows in the page's range that the store no
    /// longer has. This host's changes that are newer than the listing stay.
    ///
    /// Throws: `.superseded` when the directory was renamed or removed meanwhile, `.foreignKey` when a key lies outside it.
    package func add(_ page: ListingPage) throws(MetadataError) {
        let items = try items(of: page)
        var upper = scope.upper
        if page.next != nil {
            // An empty page does not show where the next one begins.
            guard let last = items.last else { return }
            upper = last.component.successor
        }
        var rest = items[...]
        repeat {
            let position = progress.withLock { $0.position }
            // Components before the position were in an earlier page's range: their rows are updated, and none is removed.
            let lower = rest.first.map { min($0.component, position) } ?? position
            let merge = ListingMerge(
                cache: cache, directory: directory.row, listing: number, start: start, position: position, lower: lower,
                upper: upper)
            let outcome = try cache.write { (connection) throws(SQLiteError) -> ListingMerge.Outcome? in
                if self.running.isSuperseded { return nil }
                return try merge.run(&rest, connection)
            }
            guard let outcome else { throw .superseded }
            advance(to: outcome.reached, isAtEnd: page.next == nil && outcome.isDone, outcome)
            if outcome.isDone { break }
        } while true
        // New rows push out old ones. The page is recorded even if that fails.
        _ = try? cache.trim()
    }

    /// Ends the listing. If it covered the whole directory and its last page was added, the directory is complete as of the
    /// listing's start, and the tombstones that the listing must have seen are deleted.
    package func finish() throws(MetadataError) {
        let state = progress.withLock { $0 }
        guard scope == .all, state.isAtEnd, running.forgotten == nil else { return }
        let start = start
        let (ino, now) = (directory.row, cache.clock.now)
        let isRecorded = try cache.write { (connection) throws(SQLiteError) in
            if self.running.isSuperseded { return false }
            guard let entry = try EntryRow.find(connection, ino: ino) else { return false }
            var row = try DirectoryRow.find(connection, ino: ino)
            // A listing that began later may have ended earlier: its time stays, unless it is in the future.
            if let listedAt = row.listedAt, start.at.nanosecondCount < listedAt, listedAt <= now { return true }
            row.listedAt = start.at.nanosecondCount
            if state.own != .marker, (entry.ours ?? 0) <= start.sequence {
                row.hasMarker = false
                if state.own == nil { try self.forgetMarker(of: entry, connection) }
            }
            try row.put(connection, ino: ino)
            return true
        }
        guard isRecorded else { throw .superseded }
        try removeTombstones()
    }

    // MARK: Pieces

    private func advance(to reached: ByteString?, isAtEnd: Bool, _ outcome: ListingMerge.Outcome) {
        progress.withLock { progress in
            if let reached { progress.position = max(progress.position, reached) }
            progress.own = progress.own ?? outcome.own
            progress.isAtEnd = isAtEnd
            progress.frontier = isAtEnd ? nil : max(progress.frontier ?? "", outcome.frontier)
        }
        let position = progress.withLock { $0.position }
        cache.recollection.withLock {
            guard running.forgotten == nil else { return }
            $0.recordListed(
                directory.row, listing: number, from: scope.lower, to: reached == nil ? nil : position,
                at: start.at.nanosecondCount)
        }
    }

    /// The page's components in order, each once.
    private func items(of page: ListingPage) throws(MetadataError) -> [ListingMerge.Item] {
        var items: [ListingMerge.Item] = []
        items.reserveCapacity(page.objects.count + page.commonPrefixes.count)
        for object in page.objects {
            let component = try component(of: object.key)
            // Deeper keys, from a flat listing, only show that the directory exists.
            if component.last == UInt8(ascii: "/") {
                items.append(ListingMerge.Item(component: component, object: nil))
            } else {
                items.append(ListingMerge.Item(component: component, object: object))
            }
        }
        for prefix in page.commonPrefixes {
            items.append(ListingMerge.Item(component: try component(of: prefix), object: nil))
        }
        items.sort { $0.component < $1.component }
        var last: ByteString?
        items.removeAll { item in
            defer { last = item.component }
            return item.component == last
        }
        return items
    }

    private func component(of object: ObjectKey) throws(MetadataError) -> ByteString {
        guard object.bytes.hasPrefix(key) else { throw .foreignKey }
        let rest = object.bytes.bytes.dropFirst(key.count)
        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { return ByteString(rest) }
        return ByteString(rest[...slash])
    }

    private func forgetMarker(of entry: EntryRow, _ connection: Connection) throws(SQLiteError) {
        guard entry.attributes.version != nil else { return }
        var row = entry
        row.attributes = Attributes(kind: .directory, mtime: entry.attributes.mtime)
        try row.put(connection)
        try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
    }

    private func removeTombstones() throws(MetadataError) {
        let batch = 1024
        let (ino, sequence) = (directory.row, start.sequence)
        let settled = cache.unsettled(at: start.at.nanosecondCount)
        while true {
            let removed = try cache.write { (connection) throws(SQLiteError) in
                try connection.run(
                    """
                    DELETE FROM tombstone WHERE parent = ?1 AND component IN
                        (SELECT component FROM tombstone
                         WHERE parent = ?1 AND ours <= ?2 AND (removed_at <= ?4 OR removed_at > ?5) LIMIT ?3)
                    """, ino, sequence, Int64(batch), settled, cache.clock.now)
                return connection.changes
            }
            if removed < batch { return }
        }
    }
}

extension ListingIngest.Scope {
    var lower: ByteString {
        switch self {
        case .all: ""
        case .after(let component): component.successor
        case .prefix(let prefix): prefix
        }
    }

    /// The first component past the scope; nil when the scope extends to the end.
    var upper: ByteString? {
        guard case .prefix(let prefix) = self else { return nil }
        var bytes = prefix.bytes
        while let last = bytes.popLast() {
            if last < 0xff { return ByteString(bytes + [last + 1]) }
        }
        return nil
    }
}

/// A listing under way, as renames, removals and trimming see it. `isSuperseded` is written and read inside write
/// transactions, which run one at a time; the released and forgotten rows are in a leaf mutex.
final class RunningListing: Sendable {
    private struct Rows {
        /// The only reader of the directory has read the rows before this component; nil: no rows are released.
        var released: ByteString?
        /// Rows before this component may have been deleted.
        var forgotten: ByteString?
    }

    let directory: Int64
    /// Whether the listing includes everything below the directory.
    let isDeep: Bool
    private let superseded = Atomic(false)
    private let rows = Mutex(Rows())

    init(directory: Int64, isDeep: Bool) { (self.directory, self.isDeep) = (directory, isDeep) }

    var isSuperseded: Bool { superseded.load(ordering: .acquiring) }
    func supersede() { superseded.store(true, ordering: .releasing) }

    /// Rows before this may have been forgotten since they were added; nil: every row is there.
    var forgotten: ByteString? { rows.withLock { $0.forgotten } }

    func release(before component: ByteString?) { rows.withLock { $0.released = component } }

    /// Marks the released rows as forgotten and returns their end; nil when none are released.
    func forget() -> ByteString? {
        rows.withLock { rows in
            guard let released = rows.released else { return nil }
            rows.forgotten = max(rows.forgotten ?? "", released)
            return released
        }
    }
}

extension MetadataCache {
    /// Begins to record a listing of a directory. Call before the first page is requested.
    ///
    /// A page that was requested earlier may be the first, if every key of the directory comes after those of the pages
    /// before it; then `start` is the `beginRequest` before that page. A deep listing only watches for renames of directories
    /// below the directory, for a caller that records each of them by a listing of its own.
    ///
    /// Throws: `.noSuchEntry` when the directory, or one above it, is gone.
    package func beginListing(
        of directory: InodeNumber, _ scope: ListingIngest.Scope = .all, since start: RequestStart? = nil,
        isDeep: Bool = false
    ) throws(MetadataError) -> ListingIngest {
        let start = start ?? beginRequest()
        guard let key = try key(of: directory) else { throw .noSuchEntry(directory) }
        guard key.isEmpty || key.last == UInt8(ascii: "/") else { throw .notDirectory(directory) }
        let ingest = ListingIngest(
            directory, key: key, scope: scope, start: start, isDeep: isDeep, cache: self)
        // A rename just before did not supersede the new listing, and the remembered key may be older than the rename.
        let current = try read { (connection) throws(SQLiteError) in
            try self.key(of: directory.row, generation: nil, connection)
        }
        guard current == key else { throw .superseded }
        return ingest
    }

    /// Marks the running listings of a directory, and of the directories below it, as superseded, since their keys have
    /// changed. A rename also supersedes the deep listings of all directories above it, at the source and at the target. The
    /// row may be deleted already.
    func supersedeListings(
        below directory: EntryRow, movingTo parent: Int64? = nil, isRemoval: Bool = false, _ connection: Connection
    ) throws(SQLiteError) {
        let running = listings.withLock { Array($0.values) }
        if running.isEmpty { return }
        var above: Set<Int64> = []
        if !isRemoval, running.contains(where: \.isDeep) {
            for parent in [directory.parent, parent].compactMap(\.self) {
                try above.formUnion(ancestors(of: parent, connection))
            }
        }
        for listing in running {
            let itsOwn = try ancestors(of: listing.directory, connection)
            let isAbove = listing.isDeep && above.contains(listing.directory)
            if isAbove || itsOwn.contains(directory.ino) { listing.supersede() }
        }
    }

    /// The inode number of the directory with this component, which ends with a slash; nil when there is none.
    package func directory(
        of component: ByteString, in parent: InodeNumber
    ) throws(MetadataError) -> InodeNumber? {
        try read { (connection) throws(SQLiteError) in
            try EntryRow.find(connection, parent: parent.row, component: component).map { InodeNumber(row: $0.ino) }
        }
    }
}
