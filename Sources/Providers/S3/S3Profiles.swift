import ObjectStorage

/// The members of the family with the S3 protocol itself.
extension FamilyProfile {
    private static func s3(_ name: String, _ configure: (inout FamilyProfile) -> Void = { _ in }) -> FamilyProfile {
        var profile = FamilyProfile(name: name, signer: SigV4Signer(), endpoints: S3EndpointRules())
        profile.region = "us-east-1"
        profile.encryptionContextHeader = "server-side-encryption-context"
        // Servers without this condition ignore it: MinIO and Ceph check only the conditions on the source.
        profile.capabilities.copyCondition = false
        // Older versions of both also ignore the conditions of a completion, and replace the object.
        profile.capabilities.completionCondition = false
        profile.capabilities.surplusParts = false
        profile.capabilities.accessControl = true
        profile.capabilities.tags = true
        profile.capabilities.restore = true
        profile.capabilities.versions = true
        profile.capabilities.storageClasses = [
            "STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "GLACIER_IR", "DEEP_ARCHIVE",
            "REDUCED_REDUNDANCY",
        ]
        configure(&profile)
        return profile
    }

    private static func ofAnyMaker(_ profile: inout FamilyProfile) {
        profile.isOfAnyMaker = true
        // Ceph ignores the condition and copies the present version.
        profile.capabilities.copySourceCondition = false
        // MinIO and Garage refuse keys that are not UTF-8, moto loses those with a line break.
        profile.capabilities.keyRules.untried = Set(KeyKind.allCases)
        profile.capabilities.keyRules.longestTried = 512
        profile.capabilities.longestTriedValue = 256
        // OpenStack Swift's message for values over 256 bytes.
        profile.errorMessages = [("Metadata value longer than ", .metadataTooLarge)]
    }

    package static let aws = s3("aws") { profile in
        profile.addressing = .virtualHost
        profile.checksum = .crc64nvme
        profile.capabilities.copyCondition = true
        profile.capabilities.completionCondition = true
        profile.capabilities.surplusParts = true
        profile.capabilities.deleteIfMatch = true
        profile.capabilities.prices = .amazonS3
    }

    /// Any other server with the S3 protocol: SeaweedFS, MinIO, Ceph, and hosts that are not known.
    package static let generic = s3("generic", ofAnyMaker)

    package static let minio = s3("minio", ofAnyMaker)

    package static let ceph = s3("ceph") { profile in
        ofAnyMaker(&profile)
        profile.list = .one
        profile.encodesListings = false
    }

    package static let r2 = s3("r2") { profile in
        profile.region = "auto"
        profile.capabilities.equalParts = true
        profile.capabilities.completionCondition = true
        profile.capabilities.accessControl = false
        profile.capabilities.tags = false
        profile.capabilities.restore = false
        profile.capabilities.versions = false
        profile.capabilities.storageClasses = ["STANDARD", "STANDARD_IA"]
    }

    package static let gcs = s3("gcs") { profile in
        profile.region = "auto"
        // Otherwise objects stored as gzip come decompressed and whole, whatever the range (Cloud Storage, "Transcoding of
        // gzip-compressed files"). pailfs does not decompress bodies.
        profile.readHeaders = [("Accept-Encoding", "gzip")]
        // Writes have x-goog-if-generation-match instead, and ignore these (Cloud Storage XML API, "HTTP headers").
        profile.capabilities.putIfAbsent = false
        profile.capabilities.putIfMatch = false
        profile.capabilities.partCopy = false
        profile.capabilities.largestCopy = .max
        profile.capabilities.deleteBatch = 1
        profile.capabilities.tags = false
        profile.capabilities.restore = false
        // Versions are named by generations (Cloud Storage XML API, "x-goog-generation").
        profile.capabilities.versions = false
        profile.capabilities.storageClasses = ["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"]
        profile.capabilities.archiveClasses = []
    }

    package static let scaleway = s3("scaleway") { profile in
        // Scaleway, "Managing multipart uploads".
        profile.capabilities.mostParts = 1000
        profile.capabilities.largestObject = 1000 * profile.capabilities.largestPart
    }

    private static let speakingS3 = [aws, generic, minio, ceph, r2, gcs, scaleway]

    /// The profile with this name.
    package static func s3(named name: String) -> FamilyProfile? { speakingS3.first { $0.name == name } }

    /// The profile of an endpoint of S3, or the generic one; nil is Amazon's.
    package static func s3(endpoint: String?) -> FamilyProfile {
        guard let endpoint else { return .aws }
        let endings: [(String, FamilyProfile)] = [
            (".amazonaws.com", .aws), (".amazonaws.com.cn", .aws), (".r2.cloudflarestorage.com", .r2),
            ("storage.googleapis.com", .gcs), (".scw.cloud", .scaleway),
        ]
        let host = FamilyEndpoint.host(of: endpoint)
        return endings.first { host.hasSuffix($0.0) }?.1 ?? .generic
    }
}

/// Amazon's host names ("Amazon S3 endpoints and quotas").
package struct S3EndpointRules: EndpointRules {
    package init() {}

    package var everyRegion: String { "s3.amazonaws.com" }

    package func host(region: String) -> String {
        "s3.\(region).amazonaws.com\(region.hasPrefix("cn-") ? ".cn" : "")"
    }

    /// `s3.eu-west-1.amazonaws.com`, `s3-eu-west-1...`, with or without `dualstack.`; of PrivateLink
    /// `s3.eu-west-1.vpce.amazonaws.com`.
    package func region(ofHost host: String) -> String? {
        guard let end = host.range(of: ".amazonaws.com") else { return nil }
        let labels = host[..<end.lowerBound].split(separator: ".").map(String.init)
        guard let last = labels.last else { return nil }
        if last.hasPrefix("s3-"), last != "s3-fips", last != "s3-accelerate" { return String(last.dropFirst(3)) }
        guard labels.dropLast().contains(where: { $0 == "s3" || $0 == "s3-fips" || $0 == "dualstack" }) else {
            return nil
        }
        if last == "vpce" { return labels.dropLast().last }
        return last == "dualstack" ? nil : last
    }

    package func owns(_ host: String) -> Bool {
        host.hasSuffix(".amazonaws.com") || host.hasSuffix(".amazonaws.com.cn")
    }
}
