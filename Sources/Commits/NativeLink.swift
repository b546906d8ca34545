package import Basics
package import ObjectStorage

/// Native links, the symlink objects of a store: their target is a key, where POSIX has a path relative to the link (OSS's
/// PutSymlink).
package enum NativeLink {
    /// The path that readlink(2) returns for a link at `link` whose target is the key `target`, both from the mount's top.
    package static func path(to target: ByteString, from link: ByteString) -> ByteString {
        var from = components(link).dropLast()[...]
        var to = components(target)[...]
        while let first = from.first, to.count > 1, first == to.first {
            from = from.dropFirst()
            to = to.dropFirst()
        }
        let up = Array(repeating: ByteString(".."), count: from.count)
        return joined(up + to)
    }

    /// The key to which the relative `path` leads from a link at `link`; nil when it leads out of the mount.
    package static func target(of path: ByteString, from link: ByteString) -> ByteString? {
        var target = Array(components(link).dropLast())
        for component in components(path) {
            guard component == ".." else {
                target.append(component)
                continue
            }
            guard target.popLast() != nil else { return nil }
        }
        return target.isEmpty ? nil : joined(target)
    }

    /// The same, if such a link then returns exactly this path.
    package static func exactTarget(of path: ByteString, from link: ByteString) -> ByteString? {
        guard !components(path).contains(where: { $0.isEmpty || $0 == "." }),
            let target = target(of: path, from: link), self.path(to: target, from: link) == path
        else { return nil }
        return target
    }

    private static func components(_ path: ByteString) -> [ByteString] {
        path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { ByteString($0) }
    }

    private static func joined(_ components: [ByteString]) -> ByteString {
        ByteString(components.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
    }
}

extension ObjectStore {
    /// The link at `key` as it is at `newKey`: with the same relative path if that stays in the mount, else with the same key.
    package func link(at key: ObjectKey, for newKey: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        var link = try await link(at: key)
        let path = NativeLink.path(to: link.target, from: key.bytes)
        if let target = NativeLink.target(of: path, from: newKey.bytes) { link.target = target }
        return link
    }

    /// Makes the link of `key` anew at `newKey`: a copy request would copy the content of its target. Without `headers` the new one
    /// gets those of the link.
    package func copyLink(
        _ key: ObjectKey, to newKey: ObjectKey, _ headers: ObjectMetadata? = nil
    ) async throws(ObjectStoreError) -> ObjectVersion {
        let link = try await link(at: key, for: newKey)
        let answer = try await putSymlink(PutRequest(newKey, metadata: headers ?? link.metadata), target: link.target)
        return ObjectVersion(
            etag: answer.etag, size: 0, modified: answer.modified ?? .epoch, versionID: answer.versionID)
    }
}
