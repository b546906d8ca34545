import ArgumentParser
import Basics
import Glibc
import ObjectStorage

/// Lists keys as the store has them, page by page; nothing of names or modes of a mount.
struct ListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls", abstract: "Lists the keys at a URL as the store has them.",
        helpNames: .long)

    @Argument(help: "scheme://bucket/prefix, scheme://bucket, scheme:// or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions
    @Flag(name: .short, help: "Show size, time, storage class and ETag.") var long = false
    @Flag(name: [.customShort("h"), .customLong("human-readable")], help: "With -l, show sizes as 5MiB, not in bytes.")
    var human = false
    @Flag(name: [.customShort("R"), .customLong("recursive")], help: "List every key below, not one directory.")
    var recursive = false

    mutating func run() throws {
        let (session, path) = try location.open(url, hastened: true)
        // As ls(1): what the URL names may be an object, a directory, or the start of nothing.
        var prefix = path
        if !prefix.isEmpty, !prefix.hasSuffix("/") { prefix = prefix + "/" }
        var isEmpty = true
        try session.pages(ListRequest(prefix: prefix, delimiter: recursive ? nil : UInt8(ascii: "/"))) { page in
            isEmpty = isEmpty && page.isEmpty
            for line in lines(of: page) { print(line) }
        }
        guard isEmpty, !path.isEmpty else { return }
        guard !path.hasSuffix("/") else { throw CommandError("\(url) has no keys; check its name") }
        let key = ObjectKey(path)
        let info = try session.answer { store async throws(ObjectStoreError) in
            try await store.head(key, condition: nil)
        }
        print(line(ListedObject(key: key, version: info.version, storageClass: info.storageClass)))
    }

    /// As ls(1): programs get the bytes, a terminal nothing that it would take for a command.
    private func print(_ line: ByteString) {
        Output.line(naming: line)
    }

    /// In the order of their bytes, as a listing has them.
    private func lines(of page: ListingPage) -> [ByteString] {
        var entries = page.objects.map { ($0.key, line($0)) }
        entries += page.commonPrefixes.map { ($0, long ? ByteString(columns("-", "", "", "-")) + $0.bytes : $0.bytes) }
        return entries.sorted { $0.0.bytes < $1.0.bytes }.map(\.1)
    }

    private func line(_ object: ListedObject) -> ByteString {
        guard long else { return object.key.bytes }
        let version = object.version
        return ByteString(
            columns(
                human ? ByteSize.format(version.size) : "\(version.size)", version.modified.iso8601(),
                object.storageClass ?? "", version.etag.text))
            + object.key.bytes
    }

    private func columns(_ size: String, _ modified: String, _ storageClass: String, _ etag: String) -> String {
        let right = String(repeating: " ", count: max(0, 14 - size.utf8.count)) + size
        let left = [(modified, 24), (storageClass, 12), (etag, 34)].map { text, width in
            Output.padded(text.isEmpty ? "-" : text, to: width)
        }
        return ([right] + left).joined(separator: "  ") + "  "
    }
}
