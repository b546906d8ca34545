package import ObjectStorage

/// How files are sent.
package struct CommitOptions: Sendable, Hashable {
    /// Size of the first parts; a file up to it is sent with one PUT. In bytes.
    package var partSize: Int64 = 8 << 20
    /// Parts of one file in flight at a time; the mount's limiter bounds all files together.
    package var uploadsPerFile = 8
    /// Most bytes of one server-side part copy: neighbouring untouched parts are copied together.
    package var copySize: Int64 = 256 << 20
    /// An upload that was begun while the file was written has the mtime of that moment, where the store takes no headers at
    /// completion. An mtime of up to this many seconds more at the commit counts as the same, and is not worth a request; any
    /// other difference is stored.
    package var mtimeDrift: Double = 60

    package init() {}

    /// The user metadata that carries the commit's random id.
    package static let commitHeader = "pailfs-commit"

    /// Whether a commit id belongs to one of these identities: it begins with the identity and a hyphen.
    package static func isCommit(_ id: String, of identities: some Sequence<String>) -> Bool {
        identities.contains { id.hasPrefix($0 + "-") }
    }

    /// The largest file that can be committed, in bytes; a write past it is EFBIG.
    package func largestSize(for capabilities: Capabilities) -> Int64 {
        guard capabilities.mostParts > 1 else { return min(capabilities.largestPut, capabilities.largestObject) }
        let layout = PartLayout(partSize: partSize, size: capabilities.largestObject, capabilities: capabilities)
        return min(capabilities.largestObject, layout.capacity)
    }

    /// The largest file sent with one PUT, in bytes.
    package func largestPut(for capabilities: Capabilities) -> Int64 {
        guard capabilities.mostParts > 1 else { return capabilities.largestPut }
        return min(max(partSize, capabilities.smallestPart), capabilities.largestPut)
    }

    /// Whether an object that carries `stored` need not be changed to carry `wanted`.
    func accepts(_ stored: ObjectMetadata, for wanted: ObjectMetadata, at capabilities: Capabilities) -> Bool {
        var stored = stored
        // `kept` is no header: an upload that was begun with another one is not completed.
        stored.kept = wanted.kept
        for name in ["mtime", "ctime"] where !capabilities.headersAtCompletion {
            guard let old = stored.user[name].flatMap(Double.init), let new = wanted.user[name].flatMap(Double.init),
                (0...mtimeDrift).contains(new - old)
            else { continue }
            stored.user[name] = wanted.user[name]
        }
        return stored == wanted
    }
}
