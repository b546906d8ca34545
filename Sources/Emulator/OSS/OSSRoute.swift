import Basics

/// The operations of OSS that are served, by the names of its API reference.
enum OSSOperation: String, Sendable {
    case listBuckets = "ListBuckets"
    case putBucket = "PutBucket"
    case deleteBucket = "DeleteBucket"
    case getBucketInfo = "GetBucketInfo"
    case getBucketLocation = "GetBucketLocation"
    case getBucketStat = "GetBucketStat"
    case getBucketACL = "GetBucketAcl"
    case putBucketACL = "PutBucketAcl"
    case getBucketVersioning = "GetBucketVersioning"
    case putBucketVersioning = "PutBucketVersioning"
    case getBucketCORS = "GetBucketCors"
    case putBucketCORS = "PutBucketCors"
    case deleteBucketCORS = "DeleteBucketCors"
    /// A bucket's configuration that is never set here: lifecycle, policy and others.
    case getBucketConfiguration = "GetBucketConfiguration"
    case listObjects = "ListObjects"
    case listObjectsV2 = "ListObjectsV2"
    case listObjectVersions = "ListObjectVersions"
    case listMultipartUploads = "ListMultipartUploads"
    case deleteMultipleObjects = "DeleteMultipleObjects"
    case getObject = "GetObject"
    case headObject = "HeadObject"
    case getObjectMeta = "GetObjectMeta"
    case putObject = "PutObject"
    case appendObject = "AppendObject"
    case sealAppendObject = "SealAppendObject"
    case copyObject = "CopyObject"
    case deleteObject = "DeleteObject"
    case initiateMultipartUpload = "InitiateMultipartUpload"
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
    case cleanRestoredObject = "CleanRestoredObject"
    case putSymlink = "PutSymlink"
    case getSymlink = "GetSymlink"
    case optionObject = "OptionObject"
    /// Renaming and directories, which only buckets with a hierarchical namespace have.
    case directoryOperation = "DirectoryOperation"
    case notImplemented = "NotImplemented"
    case methodNotAllowed = "MethodNotAllowed"
}

extension RequestTarget {
    /// By path, by `<bucket>.<domain>`, or by Alibaba's hosts (OSS, "Regions and endpoints"):
    /// `<bucket>.oss-<region>.aliyuncs.com`, `<bucket>.<region>.oss[-internal].aliyuncs.com` and
    /// `<bucket>.oss-accelerate.aliyuncs.com`.
    init(oss request: ServerRequest, domains: [String]) {
        self.init(request, domains: domains) { host in OSSHost(host)?.bucket }
    }
}

/// What one of Alibaba's host names says.
struct OSSHost {
    /// nil for the service.
    let bucket: String?
    /// nil for hosts of all regions.
    let region: String?

    /// nil for any other host; `name` is in small letters and without a port.
    init?(_ name: Substring) {
        guard name.hasSuffix(".aliyuncs.com") else { return nil }
        var labels = name.dropLast(".aliyuncs.com".count).split(separator: ".")
        guard let last = labels.popLast() else { return nil }
        if last == "oss" || last == "oss-internal", let region = labels.popLast() {
            self.region = String(region)
        } else if last.hasPrefix("oss-accelerate") {
            region = nil
        } else if last.hasPrefix("oss-") {
            let place = last.dropFirst("oss-".count)
            region = String(place.hasSuffix("-internal") ? place.dropLast("-internal".count) : place)
        } else {
            return nil
        }
        bucket = labels.isEmpty ? nil : labels.joined(separator: ".")
    }
}

extension OSSOperation {
    init(_ request: ServerRequest, _ target: RequestTarget) {
        if target.bucket.isEmpty {
            self = request.method == "GET" ? .listBuckets : .methodNotAllowed
        } else if target.key.isEmpty {
            self = Self.onBucket(request)
        } else {
            self = Self.onObject(request)
        }
    }

    private static let configurations: Set<String> = [
        "accessmonitor", "encryption", "inventory", "lifecycle", "logging", "policy", "publicAccessBlock",
        "qosInfo", "referer", "replication", "requestPayment", "tagging", "transferAcceleration", "website", "worm",
    ]

    private static func onBucket(_ request: ServerRequest) -> OSSOperation {
        let isConfiguration = request.query.contains { configurations.contains($0.name) }
        switch request.method {
        case "GET":
            if request.has("bucketInfo") { return .getBucketInfo }
            if request.has("location") { return .getBucketLocation }
            if request.has("stat") { return .getBucketStat }
            if request.has("acl") { return .getBucketACL }
            if request.has("versioning") { return .getBucketVersioning }
            if request.has("cors") { return .getBucketCORS }
            if request.has("uploads") { return .listMultipartUploads }
            if request.has("versions") { return .listObjectVersions }
            if isConfiguration { return .getBucketConfiguration }
            return request.parameter("list-type") == "2" ? .listObjectsV2 : .listObjects
        case "PUT":
            if request.has("acl") { return .putBucketACL }
            if request.has("cors") { return .putBucketCORS }
            if request.has("versioning") { return .putBucketVersioning }
            return isConfiguration ? .notImplemented : .putBucket
        case "DELETE":
            if request.has("cors") { return .deleteBucketCORS }
            return isConfiguration ? .notImplemented : .deleteBucket
        case "POST": return request.has("delete") ? .deleteMultipleObjects : .notImplemented
        case "OPTIONS": return .optionObject
        default: return .methodNotAllowed
        }
    }

    private static func onObject(_ request: ServerRequest) -> OSSOperation {
        switch request.method {
        case "GET":
            if request.has("uploadId") { return .listParts }
            if request.has("acl") { return .getObjectACL }
            if request.has("tagging") { return .getObjectTagging }
            if request.has("symlink") { return .getSymlink }
            if request.has("x-oss-process") { return .notImplemented }
            return request.has("objectMeta") ? .getObjectMeta : .getObject
        case "HEAD": return request.has("objectMeta") ? .getObjectMeta : .headObject
        case "PUT":
            let copies = request.hasHeader("x-oss-copy-source")
            if request.has("partNumber") || request.has("uploadId") { return copies ? .uploadPartCopy : .uploadPart }
            if request.has("acl") { return .putObjectACL }
            if request.has("tagging") { return .putObjectTagging }
            if request.has("symlink") { return .putSymlink }
            return copies ? .copyObject : .putObject
        case "POST": return posted(request)
        case "DELETE":
            if request.has("uploadId") { return .abortMultipartUpload }
            return request.has("tagging") ? .deleteObjectTagging : .deleteObject
        case "OPTIONS": return .optionObject
        default: return .methodNotAllowed
        }
    }

    private static func posted(_ request: ServerRequest) -> OSSOperation {
        if request.has("uploads") { return .initiateMultipartUpload }
        if request.has("uploadId") { return .completeMultipartUpload }
        if request.has("append") { return .appendObject }
        if request.has("seal") { return .sealAppendObject }
        if request.has("restore") { return .restoreObject }
        if request.has("cleanRestoredObject") { return .cleanRestoredObject }
        let isOnDirectories = ["x-oss-rename", "x-oss-dir", "x-oss-delete"].contains { request.has($0) }
        return isOnDirectories ? .directoryOperation : .notImplemented
    }
}
