import Basics

/// What Kodo's services do, by the first word of the path or the name its documents give.
enum KodoOperation: String, Sendable {
    // uc
    case query, queryV2, buckets, bucketsV3, mkbucketv3, drop, bucketInfo, domains, domainsV3, getbucketquota
    case setPrivate = "private"
    // rs
    case stat, copy, move, delete, chgm, chtype, restoreAr, deleteAfterDays, lifecycle, chstatus, batch
    // rsf
    case list, listV2
    // up
    case upload, mkblk, bput, mkfile
    case initiateMultipartUpload, uploadPart, listParts, completeMultipartUpload, abortMultipartUpload
    // io
    case get, getfile, fetch, prefetch
    case unknown

    /// Those of a batch (Kodo API, resource management).
    var mayBeBatched: Bool {
        switch self {
        case .stat, .copy, .move, .delete, .chgm, .chtype, .restoreAr, .deleteAfterDays, .lifecycle, .chstatus: true
        default: false
        }
    }

    private static let onEntries: [Substring: KodoOperation] = [
        "stat": .stat, "copy": .copy, "move": .move, "delete": .delete, "chgm": .chgm, "chtype": .chtype,
        "restoreAr": .restoreAr, "deleteAfterDays": .deleteAfterDays, "lifecycle": .lifecycle, "chstatus": .chstatus,
        "prefetch": .prefetch,
    ]
    private static let plain: [Substring: KodoOperation] = [
        "batch": .batch, "list": .list, "mkblk": .mkblk, "bput": .bput, "mkfile": .mkfile, "getfile": .getfile,
        "fetch": .fetch, "mkbucketv3": .mkbucketv3, "drop": .drop, "private": .setPrivate, "buckets": .buckets,
        "getbucketquota": .getbucketquota, "v2/query": .queryV2, "v4/query": .query, "v2/list": .listV2,
        "v2/bucketInfo": .bucketInfo, "v2/domains": .domains, "v3/domains": .domainsV3, "v3/buckets": .bucketsV3,
    ]

    fileprivate static func onEntry(_ word: Substring) -> KodoOperation? { onEntries[word] }
    fileprivate static func plain(_ word: Substring) -> KodoOperation? { plain[word] }
}

/// A bucket and a key, as `EncodedEntryURI` has them: base64 of `bucket:key`, split at the first colon.
struct KodoEntry: Sendable, Hashable {
    var bucket = ""
    /// Empty when the entry names a bucket only.
    var key = ByteString("")

    init(bucket: String, key: ByteString) { (self.bucket, self.key) = (bucket, key) }

    init?(encoded text: some StringProtocol) {
        guard let bytes = Base64.decode(text, alphabet: .urlSafe) else { return nil }
        self.init(plain: bytes)
    }

    init(plain bytes: [UInt8]) {
        let colon = bytes.firstIndex(of: UInt8(ascii: ":"))
        bucket = String(decoding: bytes[..<(colon ?? bytes.endIndex)], as: UTF8.self)
        if let colon { key = ByteString(bytes[(colon + 1)...]) }
    }
}

/// Where a request points. One port plays every service: paths do not collide, and hosts that name a bucket are its
/// download domains.
struct KodoTarget: Sendable {
    var operation = KodoOperation.unknown
    var entry = KodoEntry(bucket: "", key: "")
    /// What the path has behind operation and entry.
    var arguments: [Substring] = []
    /// The path could be read; otherwise the operation is only what its first word says.
    var isValid = true

    private init(operation: KodoOperation, entry: KodoEntry) { (self.operation, self.entry) = (operation, entry) }

    init(_ request: ServerRequest, domains: [String]) {
        let domain = RequestTarget(request, domains: domains, bucketInHost: Self.bucket)
        if let bucket = domain.hostBucket {
            self.init(operation: .get, entry: KodoEntry(bucket: bucket, key: domain.key))
            isValid = domain.hasValidPath
            return
        }
        self.init(path: request.path, method: request.method)
        switch operation {
        case .query, .queryV2, .list, .listV2, .bucketInfo, .setPrivate:
            entry.bucket = request.parameter("bucket") ?? ""
        case .domains, .domainsV3: entry.bucket = request.parameter("tbl") ?? ""
        default: break
        }
    }

    /// `path` of a request, or one operation of a batch.
    init(path: String, method: String) {
        let words = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard let first = words.first else {
            isValid = false
            return
        }
        if let operation = KodoOperation.onEntry(first) {
            self.operation = operation
            arguments = Array(words.dropFirst(2))
            guard let entry = words.dropFirst().first.flatMap({ KodoEntry(encoded: $0) }) else {
                isValid = false
                return
            }
            self.entry = entry
        } else if first == "buckets", words.count >= 5 {
            setUpload(Array(words.dropFirst()), method)
        } else if first.isEmpty, words.count == 1 {
            operation = .upload
        } else if let operation = KodoOperation.plain(
            words.prefix(first.hasPrefix("v") ? 2 : 1).joined(separator: "/")[...])
        {
            self.operation = operation
            arguments = Array(words.dropFirst())
            setBucketOfPath(Array(words))
        }
    }

    private mutating func setBucketOfPath(_ words: [Substring]) {
        switch operation {
        case .mkbucketv3, .drop, .getbucketquota: entry.bucket = words.count > 1 ? String(words[1]) : ""
        case .getfile:
            guard words.count > 3 else { return isValid = false }
            entry.bucket = String(words[2])
            setKey(words[3...].joined(separator: "/")[...])
        default: break
        }
    }

    private mutating func setKey(_ path: Substring) {
        guard let key = PercentEncoding.decode(path) else { return isValid = false }
        entry.key = ByteString(key)
    }

    /// `<bucket>/objects/<key>/uploads[/<id>[/<number>]]` (Kodo API, resumable upload version 2); `~` stands for a key still to
    /// be chosen.
    private mutating func setUpload(_ words: [Substring], _ method: String) {
        guard words[1] == "objects", words[3] == "uploads", words.count <= 6 else { return isValid = false }
        entry.bucket = String(words[0])
        arguments = Array(words[4...])
        if words[2] != "~" {
            guard let key = Base64.decode(words[2], alphabet: .urlSafe) else { return isValid = false }
            entry.key = ByteString(key)
        }
        operation =
            switch (method, arguments.count) {
            case ("POST", 0): .initiateMultipartUpload
            case ("PUT", 2): .uploadPart
            case ("GET", 1): .listParts
            case ("POST", 1): .completeMultipartUpload
            case ("DELETE", 1): .abortMultipartUpload
            default: .unknown
            }
    }

    /// Kodo's own `<bucket>.kodo-<region>.qiniucs.com`.
    private static func bucket(inHost host: Substring) -> String? {
        guard host.hasSuffix(".qiniucs.com"), let dot = host.firstIndex(of: "."), host[dot...].hasPrefix(".kodo-")
        else {
            return nil
        }
        return String(host[..<dot])
    }

    /// Pairs of a name and an encoded value, as `mime/<…>/x-qn-meta-k/<…>` has them; nil when one is missing or no base64.
    static func pairs(_ words: some Collection<Substring>) -> [(name: String, value: ByteString)]? {
        guard words.count.isMultiple(of: 2) else { return nil }
        var pairs: [(String, ByteString)] = []
        var rest = words[...]
        while let name = rest.popFirst(), let text = rest.popFirst() {
            guard let value = Base64.decode(text, alphabet: .urlSafe) else { return nil }
            pairs.append((String(name), ByteString(value)))
        }
        return pairs
    }
}
