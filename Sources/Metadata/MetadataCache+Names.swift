package import Basics
import SQLite
import Synchronization

/// From shown names to rows and back, and the answers for names without a row.
extension MetadataCache {
    /// Up to `limit` entries of a directory in listing order (by component, not by name): those after `component` (nil: from
    /// the first) and before `bound` (nil: to the last). This host's pending entries are included, hidden ones are not.
    package func children(
        of directory: InodeNumber, after component: ByteString?, before bound: ByteString? = nil, limit: Int
    ) throws(MetadataError) -> [Entry] {
        let clock = clock
        return try read { (connection) throws(SQLiteError) in
            let state = try DirectoryRow.find(connection, ino: directory.row)
            var entries: [Entry] = []
            var lower = component.map { $0.successor } ?? ""
            while entries.count < limit {
                let wanted = limit - entries.count
                let rows = try self.rows(of: directory.row, from: lower, before: bound, limit: wanted, connection)
                for (row, name) in try self.named(rows, from: lower, connection) {
                    if let name { entries.append(self.entry(row, name: name, in: state, clock)) }
                }
                guard rows.count == wanted, let last = rows.last else { break }
                lower = last.component.successor
            }
            return entries
        }
    }

    /// Components of a directory that `names=raw` cannot show, in order, at most `limit` after `component`. Reads each row
    /// from there on; for a user's command, not for every request.
    package func hiddenComponents(
        of directory: InodeNumber, after component: ByteString? = nil, limit: Int
    ) throws(MetadataError) -> [ByteString] {
        guard codec.style == .raw else { return [] }
        return try read { (connection) throws(SQLiteError) in
            var hidden: [ByteString] = []
            var lower = component.map { $0.successor } ?? ""
            while hidden.count < limit {
                let rows = try self.rows(of: directory.row, from: lower, before: nil, limit: 1000, connection)
                hidden += try self.named(rows, from: lower, connection).filter { $0.name == nil }.map(\.row.component)
                guard rows.count == 1000, let last = rows.last else { break }
                lower = last.component.successor
            }
            return Array(hidden.prefix(limit))
        }
    }

    /// How many entries of a directory `names=raw` hides; reads each row.
    package func hiddenCount(of directory: InodeNumber) throws(MetadataError) -> Int {
        try hiddenComponents(of: directory, limit: .max).count
    }

    /// The component that a new entry of this name gets.
    /// Throws: `.invalidName` (EINVAL) where no key is shown under that name: escapes that are not needed, `a%%file` without
    /// an entry that shadows `a`, a plain file `a.rclonelink`.
    package func component(
        toCreate name: ByteString, _ kind: EntryKind, in parent: InodeNumber
    ) throws(MetadataError) -> ByteString {
        if let component = codec.componentToCreate(name, kind) { return component }
        let wanted: ByteString?
        switch (codec.meaning(of: name), kind) {
        case (.object(let base), .file): wanted = codec.component(base, .object)
        case (.link(let base), .symlink): wanted = codec.component(base, .link)
        default: wanted = nil
        }
        guard let component = wanted else { throw .invalidName }
        let shown = try read { (connection) throws(SQLiteError) -> ByteString? in
            if try self.findFormer(name, in: parent.row, connection)?.component == component { return name }
            let neighbours = try self.neighbours(of: component, in: parent.row, connection)
            return self.codec.shownName(of: component, beside: neighbours)
        }
        guard shown == name else { throw .invalidName }
        return component
    }

    // MARK: Pieces

    /// The row of a shown name; nil when there is none.
    func find(
        _ name: ByteString, _ meaning: NameCodec.Meaning, in parent: Int64, _ connection: Connection
    ) throws(SQLiteError) -> EntryRow? {
        switch meaning {
        case .plain(let base):
            return try findFirst(base, in: parent, connection)
        case .object(let base):
            let row = try findBeside(codec.component(base, .object), name, in: parent, connection)
            return try row != nil ? row : findFormer(name, in: parent, connection)
        case .link(let base):
            let row = try findBeside(codec.component(base, .link), name, in: parent, connection)
            return try row != nil ? row : findFormer(name, in: parent, connection)
        case .ownObject:
            return try EntryRow.find(connection, parent: parent, component: "")
        case .abbreviated:
            let statement = try connection.prepare(
                "SELECT component FROM entry WHERE parent = ?1 AND abbreviated = ?2")
            try statement.bind(parent, at: 1)
            try statement.bind(name, at: 2)
            var components: [ByteString] = []
            while try statement.step() { components.append(statement.bytes(0)) }
            for component in components {
                if let row = try findBeside(component, name, in: parent, connection) { return row }
            }
            return try findFormer(name, in: parent, connection)
        }
    }

    /// The first of the components that share `base`, in the order in which they get the plain name.
    private func findFirst(
        _ base: ByteString, in parent: Int64, _ connection: Connection
    ) throws(SQLiteError) -> EntryRow? {
        // One statement; the second and third probe run only when the one before found no row.
        let statement = try connection.prepare(
            """
            SELECT * FROM entry WHERE parent = ?1 AND component = ?2
            UNION ALL SELECT * FROM entry WHERE parent = ?1 AND component = ?3
            UNION ALL SELECT * FROM entry WHERE parent = ?1 AND component = ?4
            """)
        try statement.bind(parent, at: 1)
        var index: Int32 = 2
        for role in NameCodec.Role.allCases {
            // A parameter left NULL equals nothing.
            if let component = codec.component(base, role) { try statement.bind(component, at: index) }
            index += 1
        }
        guard try statement.step() else { return nil }
        let row = EntryRow(statement)
        // A longer name is abbreviated or, in the raw style, hidden.
        return base.count <= NameCodec.longestName ? row : nil
    }

    /// The row of `component` if its neighbours make `name` its name.
    private func findBeside(
        _ component: ByteString?, _ name: ByteString, in parent: Int64, _ connection: Connection
    ) throws(SQLiteError) -> EntryRow? {
        guard let component, let row = try EntryRow.find(connection, parent: parent, component: component) else {
            return nil
        }
        return try codec.shownName(of: component, beside: neighbours(of: row, connection)) == name ? row : nil
    }

    func neighbours(of row: EntryRow, _ connection: Connection) throws(SQLiteError) -> NameCodec.Neighbours {
        try neighbours(of: row.component, in: row.parent, connection)
    }

    /// The neighbours that have the plain name before a component.
    private func neighbours(
        of component: ByteString, in parent: Int64, _ connection: Connection
    ) throws(SQLiteError) -> NameCodec.Neighbours {
        let role = codec.role(of: component)
        guard role != .directory, !component.isEmpty else { return [] }
        let base = codec.base(of: component)
        var neighbours: NameCodec.Neighbours = []
        if try EntryRow.exists(connection, parent: parent, component: base + "/") { neighbours.insert(.directory) }
        if role == .link, let object = codec.component(base, .object),
            try EntryRow.exists(connection, parent: parent, component: object)
        {
            neighbours.insert(.object)
        }
        return neighbours
    }

    private func rows(
        of directory: Int64, from lower: ByteString, before bound: ByteString?, limit: Int, _ connection: Connection
    ) throws(SQLiteError) -> [EntryRow] {
        let statement = try connection.prepare(
            "SELECT * FROM entry WHERE parent = ?1 AND component >= ?2 ORDER BY component LIMIT ?3")
        try statement.bind(directory, at: 1)
        try statement.bind(lower, at: 2)
        try statement.bind(Int64(limit), at: 3)
        var rows: [EntryRow] = []
        while try statement.step() {
            let row = EntryRow(statement)
            if let bound, row.component >= bound { break }
            // A caller that continues after the last row would loop for ever.
            guard row.component >= lower, rows.last.map({ $0.component < row.component }) ?? true else {
                throw SQLiteError(.corrupt, message: "the names of a directory are not in their order")
            }
            rows.append(row)
        }
        return rows
    }

    /// Names of rows that are consecutive in one directory, from `lower` on.
    ///
    /// Neighbours are looked for among the rows themselves. The database is only queried where a neighbour may lie outside of
    /// them, which is mostly for bases that the last component begins with.
    private func named(
        _ rows: [EntryRow], from lower: ByteString, _ connection: Connection
    ) throws(SQLiteError) -> [(row: EntryRow, name: ByteString?)] {
        guard let last = rows.last?.component else { return [] }
        var directories: Set<ByteString> = []
        for row in rows where row.attributes.kind == .directory { directories.insert(row.component.dropLast(1)) }
        var objects: Set<ByteString>?
        var named: [(row: EntryRow, name: ByteString?)] = []
        named.reserveCapacity(rows.count)
        for row in rows {
            let role = codec.role(of: row.component)
            var neighbours: NameCodec.Neighbours = []
            if role != .directory, !row.component.isEmpty {
                let base = codec.base(of: row.component)
                if directories.contains(base) {
                    neighbours.insert(.directory)
                } else if base.precedesDirectoryPast(last) || base + "/" < lower {
                    let isBeside = try EntryRow.exists(connection, parent: row.parent, component: base + "/")
                    if isBeside { neighbours.insert(.directory) }
                }
                if role == .link, let object = codec.component(base, .object) {
                    if object < lower {
                        let isBeside = try EntryRow.exists(connection, parent: row.parent, component: object)
                        if isBeside { neighbours.insert(.object) }
                    } else {
                        let known = objects ?? Set(rows.map(\.component))
                        objects = known
                        if known.contains(object) { neighbours.insert(.object) }
                    }
                }
            }
            named.append((row, codec.shownName(of: row.component, beside: neighbours)))
        }
        return named
    }

    /// Whether a name without a row is known to be missing.
    func absence(
        of name: ByteString, _ meaning: NameCodec.Meaning, in parent: Int64, _ directory: DirectoryRow, _ clock: Clock,
        _ connection: Connection
    ) throws(SQLiteError) -> LookupAnswer {
        let stale = directory.staleAt ?? .min
        var until = clock.absentUntil(directory.freshListing ?? .min)
        if !clock.isFresh(until) {
            // Each component that could make the name exist must be known as missing by itself: under a name that this host
            // removed, the bucket may still have a directory that the cache never saw.
            var least: Int64?
            for component in codec.candidates(of: meaning) {
                let known = try knownMissing(component, in: parent, stale: stale, clock, connection)
                least = min(least ?? .max, known)
            }
            until = least ?? .min
            if until == .max { until = clock.until(clock.now) }
        }
        if clock.isFresh(until) { return .absent(freshUntil: Timestamp(nanosecondCount: until)) }
        if let asked = recollection.withLock({ $0.missingSince(name, in: parent) }), asked > stale {
            let until = clock.negativeUntil(asked)
            if clock.isFresh(until: until, lifetime: clock.negativeTTL) {
                return .absent(freshUntil: Timestamp(nanosecondCount: until))
            }
        }
        return .unknown
    }

    /// The end of the time in which a component without a row counts as missing: by a listing that covered it, or by a
    /// tombstone, which has no end while it is pending.
    private func knownMissing(
        _ component: ByteString, in parent: Int64, stale: Int64, _ clock: Clock, _ connection: Connection
    ) throws(SQLiteError) -> Int64 {
        let listedAt = clock.listed.at(parent, component, through: component, latest: clock.latest)
        var until = listedAt.map { $0 > stale ? clock.absentUntil($0) : .min } ?? .min
        if let tombstone = try Tombstone.find(connection, parent: parent, component: component) {
            if tombstone.ours == pendingChange { return .max }
            if tombstone.removedAt > stale { until = max(until, clock.absentUntil(tombstone.removedAt)) }
        }
        return until
    }
}

extension NameCodec {
    /// Every component that can make a name exist; empty when the name does not yield them.
    func candidates(of meaning: Meaning) -> [ByteString] {
        switch meaning {
        case .plain(let base), .object(let base), .link(let base): Role.allCases.compactMap { component(base, $0) }
        case .ownObject: [""]
        case .abbreviated: []
        }
    }
}

extension ByteString {
    /// The least byte string above this one.
    package var successor: ByteString {
        var bytes = bytes
        bytes.append(0)
        return ByteString(bytes)
    }

    /// Whether the directory of this base would come after `last`, given that the object of this base does not.
    func precedesDirectoryPast(_ last: ByteString) -> Bool {
        last.hasPrefix(self) && (last.count == count || last.bytes[count] < UInt8(ascii: "/"))
    }
}
