import ObjectStorage

/// Tencent Cloud COS (COS API documentation).
extension FamilyProfile {
    package static let cos: FamilyProfile = {
        var profile = FamilyProfile(name: "cos", signer: COSSigner(), endpoints: COSEndpointRules())
        profile.prefix = "x-cos-"
        profile.addressing = .virtualHost
        profile.followsRegion = false
        profile.list = .one
        profile.processing = .names
        profile.plusIsSpace = false
        profile.checksum = .crc64ecma("x-cos-hash-crc64ecma")
        profile.createOnly = .header("x-cos-forbid-overwrite")
        profile.copySource = .host
        profile.replaceDirective = "Replaced"
        profile.keepTagsDirective = "Copy"
        profile.restatesACL = true
        profile.metadataNames = .noUnderscore
        profile.encryptionKeyHeader = "server-side-encryption-cos-kms-key-id"
        profile.encryptionContextHeader = "server-side-encryption-context"
        profile.namespace = nil
        profile.restoreJob = "CASJobParameters"
        profile.bucketPaging = ("marker", nil)
        profile.cannedACLs = [
            "default", "private", "public-read", "authenticated-read", "bucket-owner-read",
            "bucket-owner-full-control",
        ]
        profile.trafficLimits = 819_200...838_860_800
        profile.errors = errorsOfCOS
        profile.errorMessages = [("Request has expired", .clockSkew)]
        profile.capabilities = capabilitiesOfCOS
        return profile
    }()

    private static let capabilitiesOfCOS: Capabilities = {
        var capabilities = Capabilities()
        capabilities.longestKey = 850
        (capabilities.keyRules.refused, capabilities.keyRules.refusedFirst) = (0x18...0x1B, UInt8(ascii: "\\"))
        capabilities.largestObject = 10_000 * (5 << 30)
        capabilities.smallestPart = 1 << 20
        // Section 4.7.
        capabilities.partGaps = false
        capabilities.metadataBudget = 2048
        // Section 4.2 says that listings may lag, but not for how long.
        capabilities.listingLag = .seconds(60)
        capabilities.putIfMatch = false
        // Documented for PUT and completed uploads only.
        capabilities.copyCondition = false
        capabilities.accessControl = true
        capabilities.tags = true
        capabilities.versions = true
        capabilities.storageClasses = [
            "STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", "ARCHIVE", "DEEP_ARCHIVE", "MAZ_STANDARD",
            "MAZ_STANDARD_IA", "MAZ_INTELLIGENT_TIERING",
        ]
        capabilities.restore = true
        capabilities.prices = .cos
        return capabilities
    }()

    /// Section 5: codes other than the family's.
    private static let errorsOfCOS: [String: ObjectStoreError.Kind] = [
        "NoSuchCopySource": .notFound,
        "Request has expired": .clockSkew,
        "ExpiredToken": .credentialsExpired, "InvalidSecurityToken": .credentialsExpired,
        "PaymentRequired": .quotaExceeded, "QuotaConflict": .quotaExceeded,
        "KeyTooLong": .keyTooLong,
        "InvalidDigest": .integrity, "InvalidSHA1Digest": .integrity, "EntitySizeNotMatch": .integrity,
        "UserNetworkTooSlow": .interrupted,
        "RestoreNonArchiveObject": .notSupported, "ActionAccelerateNotSupported": .notSupported,
        "ObjectNotAppendable": .notSupported, "AppendPositionErr": .invalidRequest,
        "FileAlreadyExists": .preconditionFailed,
        // Another object has replaced the link.
        "NotSymlink": .preconditionFailed,
        "ObjectLocked": .accessDenied, "BucketLocked": .accessDenied,
        "PathConflict": .conflict, "UploadConflict": .conflict,
        "KmsInternalException": .serverFault, "KmsFreqControl": .throttled, "ServiceUnavailable": .throttled,
        "SsecDecryptHeaderInvalid": .accessDenied,
    ]
}

/// COS's host names (COS, "Regions and Access Endpoints").
package struct COSEndpointRules: EndpointRules {
    package init() {}

    package func host(region: String) -> String { "cos.\(region).myqcloud.com" }

    /// `cos.<region>.myqcloud.com` and its internal and newer forms, with or without a bucket.
    package func region(ofHost host: String) -> String? {
        guard owns(host) else { return nil }
        let labels = host.split(separator: ".").map(String.init)
        guard let start = labels.lastIndex(where: { $0 == "cos" || $0 == "cos-internal" }), start + 1 < labels.count - 2
        else { return nil }
        return labels[start + 1] == "accelerate" ? nil : labels[(start + 1)..<(labels.count - 2)].joined(separator: ".")
    }

    package func owns(_ host: String) -> Bool {
        host.hasSuffix(".myqcloud.com") || host.hasSuffix(".tencentcos.cn")
    }

    package func addressing(at host: String) -> FamilyProfile.Addressing? { owns(host) ? nil : .customDomain }

    package var everyRegion: String { "service.cos.myqcloud.com" }

    /// The name with the account's number, as requests need it; unchanged if it ends with the number already.
    package static func bucket(_ name: String, appID: String?) -> String {
        guard let appID, !appID.isEmpty, !name.hasSuffix("-\(appID)") else { return name }
        return "\(name)-\(appID)"
    }
}
