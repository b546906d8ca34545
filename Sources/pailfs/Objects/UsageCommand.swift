import ArgumentParser
import Basics
import ObjectStorage

/// Counts objects and bytes, directory by directory, in one listing of all keys.
struct UsageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "du", abstract: "Counts the bytes and objects below a URL, directory by directory.",
        discussion: "Each line has the bytes, the number of objects and the directory; the last one has the sum.",
        helpNames: .long)

    @Argument(help: "scheme://bucket/prefix, scheme://bucket or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions
    @Flag(name: [.customShort("s"), .customLong("summarize")], help: "Print the sum only.") var summarize = false
    @Flag(name: [.customShort("h"), .customLong("human-readable")], help: "Show sizes as 5MiB, not in bytes.")
    var human = false
    @Option(
        name: [.customShort("d"), .customLong("max-depth")],
        help: ArgumentHelp("Print directories this far below the URL only.", valueName: "number"))
    var depth: Int?
    @Flag(help: "Print each line as a JSON object.") var json = false

    func validate() throws {
        guard depth ?? 0 >= 0 else { throw ValidationError("--max-depth must be 0 or more") }
    }

    mutating func run() throws {
        let (session, path) = try location.open(url, whole: true, hastened: true)
        guard !session.isAccount else { throw CommandError("\(url) names no bucket; write scheme://bucket") }
        let prefix = path.isEmpty || path.hasSuffix("/") ? path : path + "/"
        var tree = UsageTree(top: prefix)
        let deepest = summarize ? 0 : depth ?? .max
        try session.pages(ListRequest(prefix: prefix)) { (page) throws(CommandError) in
            for object in page.objects {
                for usage in tree.add(object) where usage.depth <= deepest { try print(usage) }
            }
            return true
        }
        guard !tree.isEmpty || path.isEmpty else { throw CommandError("\(url) has no keys; check its name") }
        for usage in tree.finish() where usage.depth <= deepest { try print(usage) }
    }

    private struct Line: Encodable {
        let key: String
        /// The key in base64 (RFC 4648), where it is no UTF-8.
        let keyBase64: String?
        let bytes: Int64
        let objects: Int
    }

    private func print(_ usage: UsageTree.Usage) throws(CommandError) {
        guard !json else {
            let (key, keyBase64) = Output.names(usage.key)
            let line = Line(key: key, keyBase64: keyBase64, bytes: usage.bytes, objects: usage.objects)
            guard let text = try? Output.json(line, isOneLine: true) else { return }
            return Output.line(ByteString(text))
        }
        let columns = [human ? ByteSize.format(usage.bytes) : "\(usage.bytes)", "\(usage.objects)"]
        let text = zip(columns, [14, 10]).map { text, width in
            String(repeating: " ", count: max(0, width - text.utf8.count)) + text
        }
        Output.line(naming: ByteString(text.joined(separator: "  ") + "  ") + (usage.key.isEmpty ? "." : usage.key))
    }
}

/// The sums of the directories of a listing, which comes in the order of its keys: a directory is complete as soon as a key comes
/// that is not below it.
struct UsageTree {
    struct Usage: Hashable {
        /// Ends with a slash, except the top, which has the listed prefix.
        let key: ByteString
        /// The number of directories between it and the top.
        let depth: Int
        var bytes: Int64 = 0
        var objects = 0
    }

    /// The directories that hold the last key, from the top on.
    private var open: [Usage]

    init(top: ByteString) { open = [Usage(key: top, depth: 0)] }

    var isEmpty: Bool { open[0].objects == 0 && open.count == 1 }

    /// Counts an object; returns the directories that have ended before it, the deepest first.
    mutating func add(_ object: ListedObject) -> [Usage] {
        let key = object.key.bytes
        var ended: [Usage] = []
        while open.count > 1, !key.hasPrefix(open[open.count - 1].key) { ended.append(close()) }
        let known = open[open.count - 1].key.count
        for end in key.bytes.indices.dropFirst(known) where key.bytes[end] == UInt8(ascii: "/") {
            open.append(Usage(key: ByteString(key.bytes[...end]), depth: open.count))
        }
        open[open.count - 1].bytes += object.version.size
        open[open.count - 1].objects += 1
        return ended
    }

    /// The directories that are still open, the top last.
    mutating func finish() -> [Usage] {
        var ended: [Usage] = []
        while open.count > 1 { ended.append(close()) }
        return ended + open
    }

    private mutating func close() -> Usage {
        let usage = open.removeLast()
        open[open.count - 1].bytes += usage.bytes
        open[open.count - 1].objects += usage.objects
        return usage
    }
}
