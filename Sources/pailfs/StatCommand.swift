import ArgumentParser
import Basics
import ObjectStorage

/// What the store says of an object, a bucket or an account, one `name: value` a line.
struct StatCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stat", abstract: "Shows the store's record of an object, a bucket or the buckets of an account.")

    @Argument(help: "scheme://bucket/key, scheme://bucket, scheme:// or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions

    mutating func run() throws {
        let (session, path) = try location.open(url)
        let isAccount = session.isAccount
        let lines = try session.answer { store async throws(ObjectStoreError) in
            if isAccount { return try await Self.buckets(store) }
            return path.isEmpty ? try await Self.bucket(store) : try await Self.object(ObjectKey(path), store)
        }
        for line in lines { Output.say(line) }
    }

    private static func buckets(_ store: any ObjectStore) async throws(ObjectStoreError) -> [String] {
        var names: [String] = []
        var request = ListRequest(delimiter: UInt8(ascii: "/"))
        while true {
            let page = try await store.list(request)
            names += page.commonPrefixes.map { "bucket: \($0.bytes.dropLast(1))" }
            guard let next = page.next else { return names }
            request.cursor = next
        }
    }

    private static func bucket(_ store: any ObjectStore) async throws(ObjectStoreError) -> [String] {
        let usage = try await store.usage()
        var lines = ["objects: \(usage.objects)", "bytes: \(usage.bytes)"]
        if let quota = usage.quota { lines.append("quota: \(quota)") }
        return lines
    }

    private static func object(
        _ key: ObjectKey, _ store: any ObjectStore
    ) async throws(ObjectStoreError) -> [String] {
        let info = try await store.head(key, condition: nil)
        let metadata = info.metadata
        var lines = [
            "key: \(key)", "bytes: \(info.version.size)", "etag: \(info.version.etag)",
            "modified: \(info.version.modified.iso8601())",
        ]
        let optional: [(String, String?)] = [
            ("version", info.version.versionID), ("storage-class", info.storageClass),
            ("restore", info.restore?.description),
        ]
        lines += optional.compactMap { name, value in value.map { "\(name): \($0)" } }
        lines += StoredHeader.allCases.compactMap { header in metadata[header].map { "\(header.rawValue): \($0)" } }
        lines += metadata.user.sorted { $0.key < $1.key }.map { "metadata \($0.key): \($0.value)" }
        return lines
    }
}
