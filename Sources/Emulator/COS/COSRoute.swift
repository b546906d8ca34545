import Basics

/// The operations of COS that are served, by the names of its access management's actions (COS API, "Operation List").
enum COSOperation: String, Sendable {
    case getService = "GetService"
    case putBucket = "PutBucket"
    case deleteBucket = "DeleteBucket"
    case headBucket = "HeadBucket"
    case getBucket = "GetBucket"
    case getBucketObjectVersions = "GetBucketObjectVersions"
    case getBucketLocation = "GetBucketLocation"
    case getBucketVersioning = "GetBucketVersioning"
    case putBucketVersioning = "PutBucketVersioning"
    case getBucketACL = "GetBucketACL"
    case putBucketACL = "PutBucketACL"
    case listMultipartUploads = "ListMultipartUploads"
    case deleteMultipleObjects = "DeleteMultipleObjects"
    case getObject = "GetObject"
    case headObject = "HeadObject"
    case putObject = "PutObject"
    case putObjectCopy = "PutObjectCopy"
    case appendObject = "AppendObject"
    case deleteObject = "DeleteObject"
    case initiateMultipartUpload = "InitiateMultipartUpload"
    case uploadPart = "UploadPart"
    case uploadPartCopy = "UploadPartCopy"
    case listParts = "ListParts"
    case completeMultipartUpload = "CompleteMultipartUpload"
    case abortMultipartUpload = "AbortMultipartUpload"
    case getObjectACL = "GetObjectACL"
    case putObjectACL = "PutObjectACL"
    case getObjectTagging = "GetObjectTagging"
    case putObjectTagging = "PutObjectTagging"
    case deleteObjectTagging = "DeleteObjectTagging"
    case postObjectRestore = "PostObjectRestore"
    case getSymlink = "GetSymlink"
    case putSymlink = "PutSymlink"
    case getBucketCORS = "GetBucketCORS"
    case putBucketCORS = "PutBucketCORS"
    case deleteBucketCORS = "DeleteBucketCORS"
    case optionsObject = "OptionsObject"
    case notImplemented = "NotImplemented"
    case methodNotAllowed = "MethodNotAllowed"
}

/// The hosts of COS (COS, "Regions and Access Endpoints").
enum COSHost {
    static let service = "service"
    private static let domains = ["myqcloud.com", "tencentcos.cn"]

    /// The bucket of `<bucket>.cos.<region>.myqcloud.com` and its kin; nil for other hosts, and for those of COS that
    /// leave the bucket to the path. `host` is in small letters and without a port.
    static func bucket(_ host: Substring) -> String? {
        guard let labels = labels(host), labels[0] != service, !isMark(labels[0]) else { return nil }
        return String(labels[0])
    }

    /// The region that a host of COS names; nil for others and for the accelerated ones.
    static func region(_ host: Substring) -> String? {
        guard let labels = labels(host), let mark = labels.firstIndex(where: isMark), mark + 1 < labels.count,
            labels[mark + 1] != "accelerate"
        else { return nil }
        return String(labels[mark + 1])
    }

    static func isOfCOS(_ host: Substring) -> Bool { labels(host) != nil }

    private static func isMark(_ label: Substring) -> Bool { label == "cos" || label == "cos-internal" }

    /// What stands before the domain.
    private static func labels(_ host: Substring) -> [Substring]? {
        guard let domain = domains.first(where: { host.hasSuffix(".\($0)") }) else { return nil }
        let labels = host.dropLast(domain.count + 1).split(separator: ".", omittingEmptySubsequences: false)
        guard labels.contains(where: isMark), labels.allSatisfy({ !$0.isEmpty }) else { return nil }
        return labels
    }
}

extension RequestTarget {
    /// By path, by `<bucket>.<domain>`, or by COS's own hosts.
    init(cos request: ServerRequest, domains: [String]) {
        self.init(request, domains: domains, bucketInHost: COSHost.bucket)
    }
}

extension COSOperation {
    init(_ request: ServerRequest, _ target: RequestTarget) {
        if target.bucket.isEmpty {
            self = request.method == "GET" ? .getService : .methodNotAllowed
        } else if target.key.isEmpty {
            self = Self.onBucket(request)
        } else {
            self = Self.onObject(request)
        }
    }

    /// What buckets can be told there and not here.
    private static let configurations: Set<String> = [
        "accelerate", "domain", "domaincertificate", "encryption", "intelligenttiering", "inventory",
        "lifecycle", "logging", "object-lock", "origin", "policy", "referer", "replication", "response-control",
        "tagging", "website",
    ]

    private static func onBucket(_ request: ServerRequest) -> COSOperation {
        let isConfiguration = request.query.contains { configurations.contains($0.name) }
        switch request.method {
        case "GET":
            if request.has("location") { return .getBucketLocation }
            if request.has("versioning") { return .getBucketVersioning }
            if request.has("acl") { return .getBucketACL }
            if request.has("uploads") { return .listMultipartUploads }
            if request.has("versions") { return .getBucketObjectVersions }
            if request.has("cors") { return .getBucketCORS }
            return isConfiguration ? .notImplemented : .getBucket
        case "HEAD": return .headBucket
        case "PUT":
            if request.has("acl") { return .putBucketACL }
            if request.has("cors") { return .putBucketCORS }
            if request.has("versioning") { return .putBucketVersioning }
            return isConfiguration ? .notImplemented : .putBucket
        case "DELETE":
            if request.has("cors") { return .deleteBucketCORS }
            return isConfiguration ? .notImplemented : .deleteBucket
        case "POST": return request.has("delete") ? .deleteMultipleObjects : .notImplemented
        case "OPTIONS": return .optionsObject
        default: return .methodNotAllowed
        }
    }

    private static func onObject(_ request: ServerRequest) -> COSOperation {
        switch request.method {
        case "GET":
            if request.has("uploadId") { return .listParts }
            if request.has("acl") { return .getObjectACL }
            if request.has("tagging") { return .getObjectTagging }
            return request.has("symlink") ? .getSymlink : .getObject
        case "HEAD": return .headObject
        case "PUT":
            let copies = request.hasHeader("x-cos-copy-source")
            if request.has("partNumber") || request.has("uploadId") { return copies ? .uploadPartCopy : .uploadPart }
            if request.has("acl") { return .putObjectACL }
            if request.has("tagging") { return .putObjectTagging }
            if request.has("symlink") { return .putSymlink }
            return copies ? .putObjectCopy : .putObject
        case "POST":
            if request.has("append") { return .appendObject }
            if request.has("uploads") { return .initiateMultipartUpload }
            if request.has("uploadId") { return .completeMultipartUpload }
            return request.has("restore") ? .postObjectRestore : .notImplemented
        case "DELETE":
            if request.has("uploadId") { return .abortMultipartUpload }
            return request.has("tagging") ? .deleteObjectTagging : .deleteObject
        case "OPTIONS": return .optionsObject
        default: return .methodNotAllowed
        }
    }
}
