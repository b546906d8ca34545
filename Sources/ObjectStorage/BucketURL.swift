package import Basics

/// `scheme://bucket[/prefix]`: which bucket to mount, and which part of it.
package struct BucketURL: Sendable, Hashable, CustomStringConvertible {
    package enum Scheme: String, Sendable, Hashable, CaseIterable { case s3, oss, cos, kodo, cssp, swift }

    /// Why a URL cannot be used, in one sentence.
    package struct Malformed: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    package var scheme: Scheme
    /// nil: every bucket of the account.
    package var bucket: String?
    /// Empty, or ending with a slash.
    package var prefix: ByteString

    package init(scheme: Scheme, bucket: String?, prefix: ByteString = "") {
        (self.scheme, self.bucket) = (scheme, bucket)
        self.prefix = prefix.isEmpty || prefix.hasSuffix("/") ? prefix : prefix + "/"
    }

    package init(parsing text: String) throws(Malformed) {
        let bytes = ByteString(text)
        let schemes = Scheme.allCases.map { "\($0.rawValue)://" }
        guard let start = schemes.first(where: { bytes.hasPrefix(ByteString($0)) }),
            let scheme = Scheme(rawValue: String(start.dropLast(3)))
        else {
            throw Malformed(
                description: "\(text) is not a bucket URL; write scheme://bucket[/prefix] with one of "
                    + Scheme.allCases.map(\.rawValue).joined(separator: ", "))
        }
        let rest = bytes.dropFirst(start.utf8.count)
        let slash = rest.bytes.firstIndex(of: UInt8(ascii: "/"))
        let bucket = ByteString(rest.bytes[..<(slash ?? rest.count)]).description
        // The part before the `@` may be a secret.
        guard !bucket.contains("@") else {
            throw Malformed(
                description: "a bucket URL must not contain credentials; write \(scheme.rawValue)://bucket, and set "
                    + "PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY in the environment")
        }
        guard bucket.utf8.allSatisfy({ $0 > 32 && $0 != 127 && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        else {
            throw Malformed(description: "\(text) is not a bucket URL: the bucket's name holds a space, ? or #")
        }
        if scheme == .s3, let reason = Self.unusable(bucket) { throw Malformed(description: "\(text): \(reason)") }
        var prefix = slash.map { rest.dropFirst($0 + 1) } ?? ""
        while prefix.hasSuffix("//") { prefix = prefix.dropLast(1) }
        if bucket.isEmpty, !prefix.isEmpty {
            throw Malformed(
                description: "\(text) is not a bucket URL: it has a prefix but no bucket; write scheme://bucket/prefix")
        }
        self.init(scheme: scheme, bucket: bucket.isEmpty ? nil : bucket, prefix: prefix == "/" ? "" : prefix)
    }

    /// Why pailfs cannot mount the bucket or access point of such a name at Amazon S3; nil when it can (Amazon S3 user guide,
    /// "Access point aliases" and "Directory bucket naming rules").
    private static func unusable(_ bucket: String) -> String? {
        if bucket.hasPrefix("arn:") {
            return "pailfs cannot mount an ARN; write s3:// and the alias of the access point, which ends in "
                + "-s3alias (\"aws s3control get-access-point\" shows it)"
        }
        if bucket.hasSuffix("--x-s3") {
            return "pailfs cannot mount directory buckets (S3 Express One Zone), which list objects in no order; "
                + "use a general purpose bucket"
        }
        return nil
    }

    package var description: String {
        "\(scheme.rawValue)://\(bucket ?? "")\(prefix.isEmpty ? "" : "/\(prefix)")"
    }
}
