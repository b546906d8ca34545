import Glibc

/// How many requests of each operation an act cost, counted at the store.
struct Requests: CustomStringConvertible {
    let counts: [String: Int]
    /// Bytes of bodies to the store, and from it.
    let sent: Int
    let received: Int

    init(_ requests: some Collection<LoggedRequest>) {
        counts = requests.reduce(into: [:]) { $0[Self.word(for: $1.operation), default: 0] += 1 }
        sent = requests.reduce(0) { $0 + $1.bytesIn }
        received = requests.reduce(0) { $0 + $1.bytesOut }
    }

    /// S3's word for an operation of any dialect, where it has one.
    private static func word(for operation: String) -> String {
        let word = operation.prefix(1).uppercased() + operation.dropFirst()
        return words[word] ?? word
    }

    private static let words = [
        "GetBucket": "ListObjectsV2", "ListObjects": "ListObjectsV2", "List": "ListObjectsV2",
        "Stat": "HeadObject", "Get": "GetObject", "Upload": "PutObject", "Delete": "DeleteObject",
        "DeleteMultipleObjects": "DeleteObjects", "Batch": "DeleteObjects",
        "PutObjectCopy": "CopyObject", "Copy": "CopyObject", "InitiateMultipartUpload": "CreateMultipartUpload",
    ]

    /// No operation more often than the ceiling says; one it does not name, never.
    func areWithin(_ ceiling: [String: Int]) -> Bool {
        counts.allSatisfy { $0.value <= ceiling[$0.key, default: 0] }
    }

    var description: String {
        counts.isEmpty
            ? "none" : counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}

extension Store {
    /// Counts the requests of an act, and those it leaves running: until the log has been still for 100 ms.
    func requests(during act: () async throws -> Void) async throws -> Requests {
        let before = requests.count
        try await act()
        var seen = -1
        while seen != requests.count {
            seen = requests.count
            await onThread { _ = usleep(100_000) }
        }
        return Requests(requests.dropFirst(before))
    }
}
