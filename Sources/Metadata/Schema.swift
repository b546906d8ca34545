import Basics
import ObjectStorage
import SQLite

extension MetadataCache {
    /// The scripts that bring a database to this module's schema, for `Database.init(migrations:)`. No other module uses the
    /// database.
    ///
    /// `entry` holds live entries only, in listing order, so a listing page is one contiguous range of it. Timestamps of
    /// files are seconds and nanoseconds, NULL where they equal `mtime`; times of this host are nanoseconds since 1970.
    /// `ours` is NULL once the bucket confirms the entry, else the number of this host's newest change, and the largest
    /// integer while the change waits for its commit. `headers_at` is set for directories alone: for all other entries a
    /// listing shows whether their headers may have changed.
    package static let migrations: [String] = [
        """
        CREATE TABLE sequence (next INTEGER NOT NULL);
        INSERT INTO sequence VALUES (2);
        CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE entry (
            parent INTEGER NOT NULL,
            component BLOB NOT NULL,
            ino INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            size INTEGER NOT NULL,
            mode INTEGER,
            uid INTEGER,
            gid INTEGER,
            mtime INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            ctime INTEGER,
            ctime_ns INTEGER,
            etag TEXT,
            stored_size INTEGER,
            modified INTEGER,
            modified_ns INTEGER,
            version_id TEXT,
            storage_class TEXT,
            headers_known INTEGER NOT NULL,
            checked_at INTEGER NOT NULL,
            stale_at INTEGER,
            ours INTEGER,
            abbreviated BLOB,
            is_moved INTEGER,
            PRIMARY KEY (parent, component)
        ) WITHOUT ROWID;
        CREATE UNIQUE INDEX entry_ino ON entry (ino);
        CREATE INDEX entry_ours ON entry (ours) WHERE ours IS NOT NULL;
        CREATE INDEX entry_abbreviated ON entry (parent, abbreviated) WHERE abbreviated IS NOT NULL;
        CREATE TABLE tombstone (
            parent INTEGER NOT NULL,
            component BLOB NOT NULL,
            removed_at INTEGER NOT NULL,
            ours INTEGER NOT NULL,
            PRIMARY KEY (parent, component)
        ) WITHOUT ROWID;
        CREATE INDEX tombstone_pending ON tombstone (ours) WHERE ours = 9223372036854775807;
        CREATE TABLE directory (
            ino INTEGER PRIMARY KEY,
            listed_at INTEGER,
            stale_at INTEGER,
            has_marker INTEGER
        );
        CREATE TABLE headers (ino INTEGER PRIMARY KEY, fields BLOB NOT NULL);
        CREATE TABLE orphan (ino INTEGER PRIMARY KEY);
        INSERT INTO entry (parent, component, ino, kind, size, mtime, mtime_ns, headers_known, checked_at)
            VALUES (0, x'', 1, 1, 0, 0, 0, 0, 0);
        """,
        "CREATE TABLE unlinked (ino INTEGER PRIMARY KEY, parent INTEGER, component BLOB, record BLOB NOT NULL);",
        "ALTER TABLE entry ADD COLUMN headers_at INTEGER;",
        """
        CREATE TABLE former (
            parent INTEGER NOT NULL,
            name BLOB NOT NULL,
            ino INTEGER NOT NULL,
            PRIMARY KEY (parent, name)
        ) WITHOUT ROWID;
        """,
        """
        ALTER TABLE entry ADD COLUMN atime INTEGER;
        ALTER TABLE entry ADD COLUMN atime_ns INTEGER;
        """,
        // Targets of links that this mount has made. It has not read them from the store, so no cached block holds them.
        """
        CREATE TABLE link (ino INTEGER PRIMARY KEY, etag TEXT NOT NULL, target BLOB NOT NULL);
        CREATE TRIGGER link_gone AFTER DELETE ON entry WHEN OLD.kind = 2
            BEGIN DELETE FROM link WHERE ino = OLD.ino; END;
        """,
        // Every removal of an entry searches for its former names.
        "CREATE INDEX former_inode ON former (ino);",
    ]
}

extension Timestamp {
    /// Nanoseconds since 1970, clamped to 64 bits (1677 to 2262): for the times of this host's changes and requests.
    var nanosecondCount: Int64 {
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds < 0 ? .min : .max }
        let (sum, carried) = whole.addingReportingOverflow(Int64(nanoseconds))
        return carried ? .max : sum
    }

    init(nanosecondCount: Int64) {
        var (seconds, rest) = nanosecondCount.quotientAndRemainder(dividingBy: 1_000_000_000)
        if rest < 0 { (seconds, rest) = (seconds - 1, rest + 1_000_000_000) }
        self.init(seconds: seconds, nanoseconds: Int32(rest))
    }
}

/// `ours` of a change that is not in the bucket yet: newer than anything a listing can know.
let pendingChange = Int64.max

/// A row of `entry`.
struct EntryRow {
    var parent: Int64
    var component: ByteString
    var ino: Int64
    var attributes: Attributes
    var checkedAt: Int64
    var staleAt: Int64?
    var ours: Int64?
    var abbreviated: ByteString?
    /// Renamed while changes wait: the version is that of the old key.
    var isMoved = false
    /// When the headers of a directory were last requested, or set by this host.
    var headersAt: Int64?

    init(
        parent: Int64, component: ByteString, ino: Int64, attributes: Attributes, checkedAt: Int64, ours: Int64?,
        abbreviated: ByteString?
    ) {
        (self.parent, self.component, self.ino, self.attributes) = (parent, component, ino, attributes)
        (self.checkedAt, self.ours, self.abbreviated) = (checkedAt, ours, abbreviated)
        noteHeaders(at: checkedAt)
    }

    /// The attributes are from headers that the store returned, or that this host set, at that time.
    mutating func noteHeaders(at time: Int64) {
        headersAt = attributes.kind == .directory && attributes.headersKnown ? time : nil
    }

    /// Keeps the time of this host's change when the store returns the same bytes: the headers do not show a rename, for
    /// example. Also keeps the time of an object without a stored mtime: a rename copies the object, and the copy is newer.
    mutating func keepOwnTimes(of known: EntryRow) {
        guard let version = known.attributes.version, let now = attributes.version, version.hasContent(of: now) else {
            return
        }
        let isOfStore = attributes.mtime.seconds == now.modified.seconds
        if isOfStore, attributes.kind != .directory, known.attributes.mtime != version.modified,
            version.isModified(when: now)
        {
            (attributes.mtime, attributes.ctime) = (known.attributes.mtime, known.attributes.ctime)
        } else if known.attributes.headersKnown || known.attributes.ctime > version.modified {
            attributes.ctime = max(attributes.ctime, known.attributes.ctime)
        }
        attributes.atime = attributes.atime ?? known.attributes.atime
    }

    /// Reads the current row of a `SELECT * FROM entry`.
    init(_ row: borrowing Statement) {
        (parent, component, ino) = (row.int64(0), row.bytes(1), row.int64(2))
        let mtime = Self.time(row, 8)
        let size = row.int64(4)
        attributes = Attributes(
            kind: EntryKind(rawValue: UInt8(truncatingIfNeeded: row.int64(3))) ?? .file,
            size: size, mode: row.optionalInt64(5).map { UInt16(truncatingIfNeeded: $0) },
            uid: row.optionalInt64(6).map { UInt32(truncatingIfNeeded: $0) },
            gid: row.optionalInt64(7).map { UInt32(truncatingIfNeeded: $0) },
            mtime: mtime, ctime: row.isNull(10) ? mtime : Self.time(row, 10),
            storageClass: row.optionalText(17), headersKnown: row.int64(18) != 0)
        if let etag = row.optionalText(12) {
            attributes.version = ObjectVersion(
                etag: ETag(etag), size: row.optionalInt64(13) ?? size,
                modified: row.isNull(14) ? mtime : Self.time(row, 14), versionID: row.optionalText(16))
        }
        (checkedAt, staleAt, ours) = (row.int64(19), row.optionalInt64(20), row.optionalInt64(21))
        abbreviated = row.optionalBytes(22)
        isMoved = !row.isNull(23)
        headersAt = row.optionalInt64(24)
        if !row.isNull(25) { attributes.atime = Self.time(row, 25) }
    }

    private static func time(_ row: borrowing Statement, _ column: Int32) -> Timestamp {
        Timestamp(seconds: row.int64(column), nanoseconds: Int32(clamping: row.int64(column + 1)))
    }

    /// Writes the row in place of the one with the same parent and component.
    func put(_ connection: Connection) throws(SQLiteError) {
        let statement = try connection.prepare(
            """
            INSERT OR REPLACE INTO entry VALUES
            (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
            ?24, ?25, ?26, ?27)
            """)
        let version = attributes.version
        try statement.bind(parent, at: 1)
        try statement.bind(component, at: 2)
        try statement.bind(ino, at: 3)
        try statement.bind(Int64(attributes.kind.rawValue), at: 4)
        try statement.bind(attributes.size, at: 5)
        // Parameters are NULL until bound, so absent values need no call.
        if let mode = attributes.mode { try statement.bind(Int64(mode), at: 6) }
        if let uid = attributes.uid { try statement.bind(Int64(uid), at: 7) }
        if let gid = attributes.gid { try statement.bind(Int64(gid), at: 8) }
        try statement.bind(attributes.mtime.seconds, at: 9)
        try statement.bind(Int64(attributes.mtime.nanoseconds), at: 10)
        if attributes.ctime != attributes.mtime {
            try statement.bind(attributes.ctime.seconds, at: 11)
            try statement.bind(Int64(attributes.ctime.nanoseconds), at: 12)
        }
        if let version {
            try statement.bind(version.etag.text, at: 13)
            if version.size != attributes.size { try statement.bind(version.size, at: 14) }
            if version.modified != attributes.mtime {
                try statement.bind(version.modified.seconds, at: 15)
                try statement.bind(Int64(version.modified.nanoseconds), at: 16)
            }
            if let id = version.versionID { try statement.bind(id, at: 17) }
        }
        if let storageClass = attributes.storageClass { try statement.bind(storageClass, at: 18) }
        try statement.bind(attributes.headersKnown ? 1 : 0, at: 19)
        try statement.bind(checkedAt, at: 20)
        if let staleAt { try statement.bind(staleAt, at: 21) }
        if let ours { try statement.bind(ours, at: 22) }
        if let abbreviated { try statement.bind(abbreviated, at: 23) }
        if isMoved { try statement.bind(1, at: 24) }
        if let headersAt { try statement.bind(headersAt, at: 25) }
        if let atime = attributes.atime {
            try statement.bind(atime.seconds, at: 26)
            try statement.bind(Int64(atime.nanoseconds), at: 27)
        }
        try statement.run()
    }

    static func find(_ connection: Connection, ino: Int64) throws(SQLiteError) -> EntryRow? {
        let statement = try connection.prepare("SELECT * FROM entry WHERE ino = ?1")
        try statement.bind(ino, at: 1)
        return try statement.step() ? EntryRow(statement) : nil
    }

    static func find(
        _ connection: Connection, parent: Int64, component: ByteString
    ) throws(SQLiteError) -> EntryRow? {
        let statement = try connection.prepare("SELECT * FROM entry WHERE parent = ?1 AND component = ?2")
        try statement.bind(parent, at: 1)
        try statement.bind(component, at: 2)
        return try statement.step() ? EntryRow(statement) : nil
    }

    static func exists(
        _ connection: Connection, parent: Int64, component: ByteString
    ) throws(SQLiteError) -> Bool {
        let statement = try connection.prepare("SELECT 1 FROM entry WHERE parent = ?1 AND component = ?2")
        try statement.bind(parent, at: 1)
        try statement.bind(component, at: 2)
        return try statement.step()
    }

    var isPending: Bool { ours == pendingChange }

    /// Whether the row holds a change of this host, or a check, that a request begun at `start` cannot include.
    func isNewer(than start: RequestStart, now: Int64) -> Bool {
        if let ours, ours > start.sequence { return true }
        // A check in the future is from before the clock was set back, and must not win until then.
        return checkedAt > start.at.nanosecondCount && checkedAt <= now
    }
}

/// A row of `directory`; all nil when there is none.
struct DirectoryRow {
    var listedAt: Int64?
    var staleAt: Int64?
    var hasMarker: Bool?

    /// Everything read before the whole cache was distrusted is stale, whatever the row says.
    static func find(_ connection: Connection, ino: Int64) throws(SQLiteError) -> DirectoryRow {
        let statement = try connection.prepare(
            """
            SELECT listed_at, coalesce(max(stale_at, distrusted), stale_at, distrusted), has_marker
            FROM (SELECT (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'distrusted') AS distrusted)
                LEFT JOIN directory ON ino = ?1
            """)
        try statement.bind(ino, at: 1)
        guard try statement.step() else { return DirectoryRow() }
        return DirectoryRow(
            listedAt: statement.optionalInt64(0), staleAt: statement.optionalInt64(1),
            hasMarker: statement.optionalInt64(2).map { $0 != 0 })
    }

    func put(_ connection: Connection, ino: Int64) throws(SQLiteError) {
        try connection.run(
            "INSERT OR REPLACE INTO directory VALUES (?1, ?2, ?3, ?4)", ino, listedAt, staleAt,
            hasMarker.map { $0 ? Int64(1) : 0 })
    }
}

/// A row of `tombstone`: a removal by this host that older listings must not undo.
struct Tombstone {
    var removedAt: Int64
    var ours: Int64

    static func find(
        _ connection: Connection, parent: Int64, component: ByteString
    ) throws(SQLiteError) -> Tombstone? {
        let statement = try connection.prepare(
            "SELECT removed_at, ours FROM tombstone WHERE parent = ?1 AND component = ?2")
        try statement.bind(parent, at: 1)
        try statement.bind(component, at: 2)
        return try statement.step() ? Tombstone(removedAt: statement.int64(0), ours: statement.int64(1)) : nil
    }

    func put(_ connection: Connection, parent: Int64, component: ByteString) throws(SQLiteError) {
        try connection.run(
            "INSERT OR REPLACE INTO tombstone VALUES (?1, ?2, ?3, ?4)", parent, component, removedAt, ours)
    }

    static func delete(
        _ connection: Connection, parent: Int64, component: ByteString
    ) throws(SQLiteError) {
        try connection.run("DELETE FROM tombstone WHERE parent = ?1 AND component = ?2", parent, component)
    }
}
