/// A bucket that can be created and deleted at its store.
package protocol ChangeableBucket: ObjectStore {
    /// Creates the bucket, empty, in the store's region. `.preconditionFailed` when the account has it already or the name
    /// belongs to another account.
    func createBucket() async throws(ObjectStoreError)
    /// `.bucketNotEmpty` when anything is left in it, old versions and unfinished uploads included.
    func deleteBucket() async throws(ObjectStoreError)
}

/// The names that a store accepts for a new bucket.
package struct BucketNameRule: Sendable, Hashable {
    /// In bytes.
    package var length = 3...63
    /// Lower-case letters, digits and hyphens only, with dots where `allowsDots`; nil for any UTF-8.
    package var isRestricted = true
    package var allowsDots = false
    /// The end of every name: a hyphen and the number of the account.
    package var end: End?

    package enum End: Sendable, Hashable {
        case exactly(String)
        case anyNumber
    }

    package init() {}

    /// Why the name cannot be that of a new bucket; nil where the store may accept it.
    package func problem(_ name: String) -> String? {
        guard length.contains(name.utf8.count) else {
            return "the name of a bucket has \(length.lowerBound) to \(length.upperBound) characters"
        }
        guard isRestricted else { return nil }
        let allowed = "lower-case letters, digits\(allowsDots ? ", dots" : "") and hyphens"
        let isPlain = name.utf8.allSatisfy { byte in
            Self.isAlphanumeric(byte) || byte == UInt8(ascii: "-") || allowsDots && byte == UInt8(ascii: ".")
        }
        guard isPlain, name.utf8.first.map(Self.isAlphanumeric) == true,
            name.utf8.last.map(Self.isAlphanumeric) == true,
            !name.contains("..")
        else { return "the name of a bucket has \(allowed), and a letter or digit at both ends" }
        let labels = name.split(separator: ".")
        guard labels.count != 4 || !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else {
            return "the name of a bucket must not look like an IP address"
        }
        return endProblem(name)
    }

    private func endProblem(_ name: String) -> String? {
        switch end {
        case nil: return nil
        case .exactly(let end):
            return name.hasSuffix(end) && name.count > end.count
                ? nil : "the name of a bucket ends with the number of the account; write \(name)\(end)"
        case .anyNumber:
            let parts = name.split(separator: "-")
            return parts.count > 1 && parts.last?.allSatisfy(\.isNumber) == true
                ? nil : "the name of a bucket ends with a hyphen and the number of the account (APPID)"
        }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
