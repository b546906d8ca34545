import ArgumentParser
import Basics
import Glibc
import ObjectStorage

/// Lists keys as the store has them, page by page, without the names or modes that a mount shows.
struct ListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls", abstract: "Lists the keys at a URL as the store has them.",
        discussion: """
            Where the URL names neither an object nor a directory, every entry of its directory that begins with the last \
            component is listed.
            """,
        helpNames: .long)

    @Argument(help: "scheme://bucket/prefix, scheme://bucket, scheme:// or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions
    @Flag(name: .short, help: "Show size, time, storage class and ETag.") var long = false
    @Flag(name: [.customShort("h"), .customLong("human-readable")], help: "With -l, show sizes as 5MiB, not in bytes.")
    var human = false
    @Flag(name: [.customShort("R"), .customLong("recursive")], help: "List every key below, not one directory.")
    var recursive = false
    @Flag(help: "Print each entry as a JSON object on a line of its own.") var json = false
    @Option(help: ArgumentHelp("List this many entries at most.", valueName: "number")) var limit: Int?
    @Option(help: ArgumentHelp("List only entries after this key.", valueName: "key")) var after: String?
    @Option(help: ArgumentHelp("List only entries before this key.", valueName: "key")) var before: String?

    func validate() throws {
        guard limit ?? 1 > 0 else { throw ValidationError("--limit must be 1 or more") }
    }

    mutating func run() throws {
        let (session, path) = try location.open(url, hastened: true)
        // As ls(1): the URL may be that of an object, of a directory, or only the start of keys.
        var prefix = path
        if !prefix.isEmpty, !prefix.hasSuffix("/") { prefix = prefix + "/" }
        if try list(prefix, session) || path.isEmpty { return }
        let isBounded = after != nil || before != nil
        guard !path.hasSuffix("/") else { return try requireKeys(isBounded) }
        let key = ObjectKey(path)
        let info = try session.answer { store async throws(ObjectStoreError) -> ObjectInfo? in
            do throws(ObjectStoreError) { return try await store.head(key, condition: nil) } catch {
                guard error.kind == .notFound else { throw error }
                return nil
            }
        }
        if let info {
            guard isBetween(path) else { return }
            return print(object: ListedObject(key: key, version: info.version, storageClass: info.storageClass))
        }
        if try !list(path, session) { try requireKeys(isBounded) }
    }

    /// Between two keys there may be nothing.
    private func requireKeys(_ isBounded: Bool) throws(CommandError) {
        if !isBounded { throw CommandError("\(url) has no keys; check its name") }
    }

    /// Whether the key is between `after` and `before`.
    private func isBetween(_ key: ByteString) -> Bool {
        after.map { key > ByteString($0) } ?? true && before.map { key < ByteString($0) } ?? true
    }

    /// Prints the entries that begin with `prefix`, up to `limit`; false when the store has none there.
    private func list(_ prefix: ByteString, _ session: ObjectStoreSession) throws(CommandError) -> Bool {
        var left = limit ?? .max
        let request = ListRequest(
            prefix: prefix, delimiter: recursive ? nil : UInt8(ascii: "/"), startAfter: after.map { ByteString($0) },
            limit: limit)
        var found = false
        try session.pages(request) { (page) throws(CommandError) in
            found = found || !page.isEmpty
            let (shown, isPast) = entries(of: page)
            for entry in shown.prefix(left) { Output.line(naming: entry) }
            left -= min(left, shown.count)
            return left > 0 && !isPast
        }
        return found
    }

    private func print(object: ListedObject) { Output.line(naming: line(object)) }

    /// The entries between `after` and `before`, in the order of their bytes, as a listing has them, and whether the page reaches
    /// beyond these.
    private func entries(of page: ListingPage) -> (shown: [ByteString], isPast: Bool) {
        var entries = page.objects.map { ($0.key, line($0)) }
        entries += page.commonPrefixes.map { ($0, line(prefix: $0)) }
        let isPast = before.map { end in entries.contains { $0.0.bytes >= ByteString(end) } } ?? false
        // A store may name the common prefix that `after` is below.
        let shown = entries.filter { isBetween($0.0.bytes) }
        return (shown.sorted { $0.0.bytes < $1.0.bytes }.map(\.1), isPast)
    }

    private func line(_ object: ListedObject) -> ByteString {
        if json { return document(ListedLine(object)) }
        guard long else { return object.key.bytes }
        let version = object.version
        return ByteString(
            columns(
                human ? ByteSize.format(version.size) : "\(version.size)", version.modified.iso8601(),
                object.storageClass ?? "", version.etag.text))
            + object.key.bytes
    }

    private func line(prefix: ObjectKey) -> ByteString {
        if json { return document(ListedLine(prefix: prefix)) }
        return long ? ByteString(columns("-", "", "", "-")) + prefix.bytes : prefix.bytes
    }

    private func document(_ line: ListedLine) -> ByteString {
        ByteString((try? Output.json(line, isOneLine: true)) ?? "{}")
    }

    private func columns(_ size: String, _ modified: String, _ storageClass: String, _ etag: String) -> String {
        let right = String(repeating: " ", count: max(0, 14 - size.utf8.count)) + size
        let left = [(modified, 24), (storageClass, 12), (etag, 34)].map { text, width in
            Output.padded(text.isEmpty ? "-" : text, to: width)
        }
        return ([right] + left).joined(separator: "  ") + "  "
    }
}
