import Basics

/// The operations of S3 that are served, by the names of its API reference.
enum S3Operation: String, Sendable {
    case listBuckets = "ListBuckets"
    case createBucket = "CreateBucket"
    case deleteBucket = "DeleteBucket"
    case headBucket = "HeadBucket"
    case getBucketLocation = "GetBucketLocation"
    case getBucketVersioning = "GetBucketVersioning"
    case putBucketVersioning = "PutBucketVersioning"
    case getBucketACL = "GetBucketAcl"
    case putBucketACL = "PutBucketAcl"
    case listObjects = "ListObjects"
    case listObjectsV2 = "ListObjectsV2"
    case listObjectVersions = "ListObjectVersions"
    case listMultipartUploads = "ListMultipartUploads"
    case deleteObjects = "DeleteObjects"
    case getObject = "GetObject"
    case headObject = "HeadObject"
    case getObjectAttributes = "GetObjectAttributes"
    case putObject = "PutObject"
    case copyObject = "CopyObject"
    case deleteObject = "DeleteObject"
    case createMultipartUpload = "CreateMultipartUpload"
    case uploadPart = "UploadPart"
    case uploadPartCopy = "UploadPartCopy"
    case listParts = "ListParts"
    case completeMultipartUpload = "CompleteMultipartUpload"
    case abortMultipartUpload = "AbortMultipartUpload"
    case getObjectACL = "GetObjectAcl"
    case putObjectACL = "PutObjectAcl"
    case getObjectTagging = "GetObjectTagging"
    case putObjectTagging = "PutObjectTagging"
    case deleteObjectTagging = "DeleteObjectTagging"
    case restoreObject = "RestoreObject"
    case getBucketCORS = "GetBucketCors"
    case putBucketCORS = "PutBucketCors"
    case deleteBucketCORS = "DeleteBucketCors"
    case preflight = "OptionsObject"
    /// A bucket's configuration that is never set here: policy, lifecycle and others.
    case getBucketConfiguration = "GetBucketConfiguration"
    case notImplemented = "NotImplemented"
    case methodNotAllowed = "MethodNotAllowed"

    /// The answers that may be an error although their status is 200.
    var mayFailAfterSuccess: Bool {
        self == .copyObject || self == .uploadPartCopy || self == .completeMultipartUpload
    }
}

extension RequestTarget {
    /// By path, by `<bucket>.<domain>`, or by Amazon's hosts: `<bucket>.s3[.-]…amazonaws.com[.cn]`.
    init(s3 request: ServerRequest, domains: [String]) {
        self.init(request, domains: domains) { host in
            guard host.hasSuffix(".amazonaws.com") || host.hasSuffix(".amazonaws.com.cn") else { return nil }
            let labels = host.split(separator: ".")
            guard let service = labels.lastIndex(where: { $0 == "s3" || $0.hasPrefix("s3-") }), service > 0 else {
                return nil
            }
            return labels[..<service].joined(separator: ".")
        }
    }
}

extension S3Operation {
    init(_ request: ServerRequest, _ target: RequestTarget) {
        if target.bucket.isEmpty {
            self = request.method == "GET" || request.method == "HEAD" ? .listBuckets : .methodNotAllowed
        } else if target.key.isEmpty {
            self = Self.onBucket(request)
        } else {
            self = Self.onObject(request)
        }
    }

    private static let configurations: Set<String> = [
        "accelerate", "analytics", "encryption", "intelligent-tiering", "inventory", "lifecycle", "logging",
        "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock",
        "replication", "requestPayment", "tagging", "website",
    ]

    private static func onBucket(_ request: ServerRequest) -> S3Operation {
        let isConfiguration = request.query.contains { configurations.contains($0.name) }
        switch request.method {
        case "GET":
            if request.has("location") { return .getBucketLocation }
            if request.has("versioning") { return .getBucketVersioning }
            if request.has("acl") { return .getBucketACL }
            if request.has("cors") { return .getBucketCORS }
            if request.has("uploads") { return .listMultipartUploads }
            if request.has("versions") { return .listObjectVersions }
            if isConfiguration { return .getBucketConfiguration }
            return request.parameter("list-type") == "2" ? .listObjectsV2 : .listObjects
        case "HEAD": return .headBucket
        case "PUT":
            if request.has("acl") { return .putBucketACL }
            if request.has("cors") { return .putBucketCORS }
            if request.has("versioning") { return .putBucketVersioning }
            return isConfiguration ? .notImplemented : .createBucket
        case "DELETE":
            if request.has("cors") { return .deleteBucketCORS }
            return isConfiguration ? .notImplemented : .deleteBucket
        case "POST": return request.has("delete") ? .deleteObjects : .notImplemented
        case "OPTIONS": return .preflight
        default: return .methodNotAllowed
        }
    }

    private static func onObject(_ request: ServerRequest) -> S3Operation {
        let isLocking = request.has("retention") || request.has("legal-hold") || request.has("torrent")
        switch request.method {
        case "GET":
            if request.has("uploadId") { return .listParts }
            if request.has("acl") { return .getObjectACL }
            if request.has("tagging") { return .getObjectTagging }
            if request.has("attributes") { return .getObjectAttributes }
            return isLocking ? .notImplemented : .getObject
        case "HEAD": return .headObject
        case "PUT":
            let copies = request.hasHeader("x-amz-copy-source")
            if request.has("partNumber") || request.has("uploadId") { return copies ? .uploadPartCopy : .uploadPart }
            if request.has("acl") { return .putObjectACL }
            if request.has("tagging") { return .putObjectTagging }
            if isLocking || request.has("renameObject") { return .notImplemented }
            return copies ? .copyObject : .putObject
        case "POST":
            if request.has("uploads") { return .createMultipartUpload }
            if request.has("uploadId") { return .completeMultipartUpload }
            return request.has("restore") ? .restoreObject : .notImplemented
        case "DELETE":
            if request.has("uploadId") { return .abortMultipartUpload }
            return request.has("tagging") ? .deleteObjectTagging : .deleteObject
        case "OPTIONS": return .preflight
        default: return .methodNotAllowed
        }
    }
}
