import ArgumentParser
import Basics
import ObjectStorage

/// The store's record of an object, a bucket or an account, one `name: value` a line.
struct StatCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stat", abstract: "Shows the store's record of an object, a bucket or the buckets of an account.")

    @Argument(help: "scheme://bucket/key, scheme://bucket, scheme:// or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions
    @Flag(help: "Print one JSON object.") var json = false
    @Flag(help: "Also tags and access control list, which cost a request each.") var all = false

    mutating func run() throws {
        let (session, path) = try location.open(url)
        let (isAccount, isWhole) = (session.isAccount, all)
        let lines = try session.answer { store async throws(ObjectStoreError) in
            if isAccount { return try await Self.buckets(store) }
            if path.isEmpty { return try await Self.bucket(store) }
            let lines = try await Self.object(ObjectKey(path), store)
            return isWhole ? lines + (try await Self.properties(of: ObjectKey(path), store)) : lines
        }
        guard json else {
            for line in lines { Output.say("\(line.name): \(line.value)") }
            return
        }
        guard !isAccount else {
            print(try Output.json(["buckets": lines.map(\.value)]))
            return
        }
        let document = Dictionary(grouping: lines, by: \.name).mapValues { lines in
            lines[0].number.map(JSONValue.number) ?? .text(lines[0].value)
        }
        print(try Output.json(document))
    }

    private struct Line: Sendable {
        let name: String
        let value: String
        let number: Int64?

        init(_ name: String, _ value: some CustomStringConvertible) {
            (self.name, self.value, number) = (name, value.description, nil)
        }

        init(_ name: String, _ value: Int64) { (self.name, self.value, number) = (name, "\(value)", value) }
    }

    private enum JSONValue: Encodable {
        case text(String)
        case number(Int64)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            }
        }
    }

    private static func buckets(_ store: any ObjectStore) async throws(ObjectStoreError) -> [Line] {
        var names: [Line] = []
        var request = ListRequest(delimiter: UInt8(ascii: "/"))
        while true {
            let page = try await store.list(request)
            names += page.commonPrefixes.map { Line("bucket", $0.bytes.dropLast(1)) }
            guard let next = page.next else { return names }
            request.cursor = next
        }
    }

    private static func bucket(_ store: any ObjectStore) async throws(ObjectStoreError) -> [Line] {
        let usage = try await store.usage()
        var lines = [Line("objects", usage.objects), Line("bytes", usage.bytes)]
        if let quota = usage.quota { lines.append(Line("quota", quota)) }
        if let readers = usage.readers { lines.append(Line("readers", readers)) }
        if let writers = usage.writers { lines.append(Line("writers", writers)) }
        return lines + usage.metadata.sorted { $0.key < $1.key }.map { Line("metadata \($0.key)", $0.value) }
    }

    private static func object(
        _ key: ObjectKey, _ store: any ObjectStore
    ) async throws(ObjectStoreError) -> [Line] {
        let info = try await store.head(key, condition: nil)
        let metadata = info.metadata
        var lines = [
            Line("key", key), Line("bytes", info.version.size), Line("etag", info.version.etag),
            Line("modified", info.version.modified.iso8601()),
        ]
        let optional: [(String, String?)] = [
            ("version", info.version.versionID), ("storage-class", info.storageClass),
            ("restore", info.restore?.description), ("encryption", info.encryption),
            ("parts", parts(of: info.version.etag)), ("crc-64", info.crc64?.description),
            ("checksum", info.checksum.flatMap(text)),
        ]
        lines += optional.compactMap { name, value in value.map { Line(name, $0) } }
        lines += StoredHeader.allCases.compactMap { header in metadata[header].map { Line(header.rawValue, $0) } }
        lines += metadata.user.sorted { $0.key < $1.key }.map { Line("metadata \($0.key)", $0.value) }
        return lines
    }

    /// The number of parts of the object, where its ETag shows it: `DIGEST-NUMBER`.
    static func parts(of etag: ETag) -> String? {
        let pieces = etag.text.split(separator: "-", omittingEmptySubsequences: false)
        guard pieces.count == 2, pieces[0].count == 32, pieces[0].allSatisfy(\.isHexDigit), Int(pieces[1]) != nil else {
            return nil
        }
        return String(pieces[1])
    }

    /// nil for a checksum that another line shows.
    private static func text(_ checksum: ContentChecksum) -> String? {
        switch checksum {
        case .crc64ecma, .qetag: nil
        default: "\(checksum.name) \(Hex.encode(checksum.digest))"
        }
    }

    /// Tags and access control list. Those that the store does not have, or that these credentials may not read, are left out.
    private static func properties(
        of key: ObjectKey, _ store: any ObjectStore
    ) async throws(ObjectStoreError) -> [Line] {
        let tags = try await told { () async throws(ObjectStoreError) in try await store.tags(of: key) } ?? [:]
        let access = try await told { () async throws(ObjectStoreError) in try await store.accessControl(of: key) }
        var lines = tags.sorted { $0.key < $1.key }.map { Line("tag \($0.key)", $0.value) }
        if let canned = access?.canned { lines.append(Line("acl", canned)) }
        let grants = access?.grants.map(\.text) ?? []
        if !grants.isEmpty { lines.append(Line("grants", grants.joined(separator: ", "))) }
        return lines
    }

    private static func told<Value>(
        _ ask: () async throws(ObjectStoreError) -> Value
    ) async throws(ObjectStoreError) -> Value? {
        do { return try await ask() } catch {
            guard error.kind == .notSupported || error.kind == .accessDenied else { throw error }
            return nil
        }
    }
}
