package import ObjectStorage

/// What one S3-shaped store does differently, as data. Shared code asks this and never which provider it is.
package struct S3Profile: Sendable, Hashable {
    package enum Addressing: Sendable, Hashable { case path, virtualHost }
    package enum ListVersion: Sendable, Hashable { case one, two }

    package var name: String
    package var addressing = Addressing.path
    package var list = ListVersion.two
    /// Ask for percent-encoded keys in listings; stores that mishandle it get plain ones.
    package var encodesListings = true
    /// Send `x-amz-checksum-crc64nvme` with bodies and ask for checksums with reads.
    package var checksums = false
    /// An ETag of 32 hexadecimal digits is the MD5 of the content.
    package var etagIsMD5 = true
    /// The region of a host that does not tell one.
    package var region = "us-east-1"
    package var capabilities = Capabilities()

    package init(name: String) { self.name = name }

    package static let aws: S3Profile = {
        var profile = S3Profile(name: "aws")
        profile.addressing = .virtualHost
        profile.checksums = true
        profile.capabilities.deleteIfMatch = true
        return profile
    }()

    /// Anything that speaks S3: SeaweedFS, MinIO, Ceph, and everything not known by its host.
    package static let generic = S3Profile(name: "generic")

    package static let minio = S3Profile(name: "minio")

    package static let ceph: S3Profile = {
        var profile = S3Profile(name: "ceph")
        profile.list = .one
        profile.encodesListings = false
        return profile
    }()

    package static let r2: S3Profile = {
        var profile = S3Profile(name: "r2")
        profile.region = "auto"
        profile.capabilities.equalParts = true
        // Destination conditions of copies have other names there.
        profile.capabilities.copyCondition = false
        return profile
    }()

    package static let gcs: S3Profile = {
        var profile = S3Profile(name: "gcs")
        profile.region = "auto"
        profile.capabilities.partCopy = false
        profile.capabilities.largestCopy = .max
        profile.capabilities.deleteBatch = 1
        return profile
    }()

    package static let all = [aws, generic, minio, ceph, r2, gcs]

    package static func named(_ name: String) -> S3Profile? { all.first { $0.name == name } }

    /// The profile of a host, or the generic one.
    package static func of(host: String) -> S3Profile {
        let endings: [(String, S3Profile)] = [
            (".amazonaws.com", .aws), (".amazonaws.com.cn", .aws), (".r2.cloudflarestorage.com", .r2),
            ("storage.googleapis.com", .gcs),
        ]
        return endings.first { host.hasSuffix($0.0) }?.1 ?? .generic
    }
}
