import ObjectStorage

/// Alibaba Cloud OSS (OSS API reference).
extension FamilyProfile {
    package static let oss = oss()

    /// Hosts that end with one of `cnameExclusions` take the bucket in front, like OSS's own hosts, or in the path.
    package static func oss(cnameExclusions: [String] = [], path: Bool = false) -> FamilyProfile {
        let rules = OSSEndpointRules(cnameExclusions: cnameExclusions, excludedTakePath: path)
        var profile = FamilyProfile(name: "oss", signer: OSSV4Signer(), endpoints: rules)
        profile.prefix = "x-oss-"
        profile.addressing = .virtualHost
        profile.locator = OSSV1Signer()
        profile.locationPrefix = "oss-"
        // The answer for a wrong region has an endpoint, which may belong to another party: section 1.
        profile.followsRegion = false
        profile.plusIsSpace = false
        profile.encodesTokens = true
        profile.namesPageSize = true
        profile.processing = .parameter("x-oss-process")
        profile.checksum = .crc64ecma("x-oss-hash-crc64ecma")
        profile.createOnly = .header("x-oss-forbid-overwrite")
        // Without this header a range that is not wholly inside the object is answered with the whole object: section 4.3.
        profile.rangeHeaders = [("x-oss-range-behavior", "standard")]
        profile.copySource = .path("/")
        // OSS does not copy append objects.
        profile.carriesUncopyable = true
        profile.keepTagsDirective = "Copy"
        profile.restatesACL = true
        profile.metadataNames = .noUnderscore
        profile.standardClass = "Standard"
        profile.encryptionKeyHeader = "server-side-encryption-key-id"
        profile.customerKeys = false
        profile.namespace = nil
        profile.restoreJob = "JobParameters"
        // Archive takes no days; the colder classes have a default.
        profile.restoreDays = nil
        profile.bucketPaging = ("marker", 1000)
        profile.cannedACL = true
        profile.aclHeader = "object-acl"
        profile.cannedACLs = ["default", "private", "public-read", "public-read-write"]
        profile.headErrorHeader = "x-oss-err"
        profile.trafficLimits = 245_760...838_860_800
        profile.errors = errorsOfOSS
        profile.errorMessages = [
            ("Invalid signing date in Authorization header", .clockSkew),
            ("Invalid signing region", .wrongRegion),
            ("must be addressed using the specified endpoint", .wrongRegion),
        ]
        profile.capabilities = capabilitiesOfOSS
        return profile
    }

    private static let capabilitiesOfOSS: Capabilities = {
        var capabilities = Capabilities()
        capabilities.longestKey = 1023
        (capabilities.keyRules.areText, capabilities.keyRules.refusedFirst) = (true, UInt8(ascii: "\\"))
        // "Less than 1 GB": section 4.5.
        capabilities.largestCopy = 1 << 30 - 1
        capabilities.largestObject = 10_000 * (5 << 30)
        capabilities.smallestPart = 100 << 10
        // 8 KB with the headers' prefixes.
        capabilities.metadataBudget = 8000
        capabilities.putIfMatch = false
        capabilities.accessControl = true
        capabilities.tags = true
        capabilities.versions = true
        capabilities.storageClasses = ["Standard", "IA", "Archive", "ColdArchive", "DeepColdArchive"]
        capabilities.restore = true
        capabilities.symlinks = true
        capabilities.usage = true
        capabilities.prices = .oss
        return capabilities
    }()

    /// Section 5: codes other than the family's.
    private static let errorsOfOSS: [String: ObjectStoreError.Kind] = [
        "SymlinkTargetNotExist": .notFound,
        // A link to a link, or to a directory: no object can be read there either.
        "InvalidTargetType": .notFound,
        "UserDisable": .accessDenied, "BucketDisable": .accessDenied, "SecondLevelDomainForbidden": .accessDenied,
        "SecurityTokenNotSupported": .accessDenied, "WORMConfigurationLocked": .accessDenied,
        "FileImmutable": .accessDenied, "ObjectImmutable": .accessDenied,
        "InvalidSecurityToken": .credentialsExpired, "SecurityTokenExpired": .credentialsExpired,
        "AccessKeyIdAndSecurityTokenNotMatch": .credentialsExpired,
        "InDebt": .quotaExceeded, "InDebtOverdue": .quotaExceeded, "KmsInDebt": .quotaExceeded,
        "KmsInDebtOverdue": .quotaExceeded,
        "FilePartNotExist": .partRejected,
        "BadRequest": .interrupted, "InvalidDigest": .integrity, "InvalidCRC64": .integrity,
        "OperationNotSupported": .notSupported, "ObjectNotAppendable": .notSupported,
        "FileAlreadyExists": .preconditionFailed, "ObjectAlreadyExists": .preconditionFailed,
        // Another object has replaced the link.
        "NotSymlink": .preconditionFailed,
        "TotalQpsLimitExceeded": .throttled, "MetaOperationQpsLimitExceeded": .throttled,
        "UploadTrafficRateLimitExceeded": .throttled, "DownloadTrafficRateLimitExceeded": .throttled,
        "ActiveRequestLimitExceeded": .throttled, "CpuLimitExceeded": .throttled, "ServiceUnavailable": .throttled,
        "NotImplemented": .notSupported,
    ]
}

/// OSS's host names, with or without a bucket in front (OSS, "Regions and endpoints").
package struct OSSEndpointRules: EndpointRules {
    private let exclusions: [String]
    private let excludedTakePath: Bool

    package init(cnameExclusions: [String] = [], excludedTakePath: Bool = false) {
        (exclusions, self.excludedTakePath) = (cnameExclusions, excludedTakePath)
    }

    package var everyRegion: String { host(region: "cn-hangzhou") }

    package func host(region: String) -> String { "oss-\(region).aliyuncs.com" }

    /// `oss-cn-hangzhou[-internal].aliyuncs.com` or `cn-hangzhou.oss[-internal].aliyuncs.com`, with or without a bucket.
    package func region(ofHost host: String) -> String? {
        guard owns(host) else { return nil }
        let labels = host.split(separator: ".").dropLast(2).map(String.init)
        guard var last = labels.last else { return nil }
        if last == "oss" || last == "oss-internal" { return labels.dropLast().last }
        guard last.hasPrefix("oss-"), !last.hasPrefix("oss-accelerate"), last != "oss-cloudbox" else { return nil }
        if last.hasSuffix("-internal") { last.removeLast(9) }
        return String(last.dropFirst(4))
    }

    package func owns(_ host: String) -> Bool { host.hasSuffix(".aliyuncs.com") }

    package func addressing(at host: String) -> FamilyProfile.Addressing? {
        if owns(host) { return .virtualHost }
        guard exclusions.contains(where: { host.hasSuffix($0) }) else { return .customDomain }
        return excludedTakePath ? .path : .virtualHost
    }
}
