import Basics
import Digests

/// Signature Version 1 of OSS, HMAC-SHA1 over bytes, for keys need not be text (OSS API, "Signature Version 1").
enum OSSSignatureV1 {
    private static let subresources: Set<String> = [
        "accessPoint", "accessPointPolicy", "acl", "append", "asyncFetch", "bucketArchiveDirectRead", "bucketInfo",
        "callback", "callback-var", "cleanRestoredObject", "cloudboxes", "cname", "comp", "continuation-token", "cors",
        "delete",
        "encryption", "endTime", "group", "httpsConfig", "img", "inventory", "inventoryId", "lifecycle", "link", "live",
        "location", "logging", "metaQuery", "objectInfo", "objectMeta", "partNumber", "policy", "position",
        "publicAccessBlock", "qos", "qosInfo", "qosRequester", "redundancyTransition", "referer", "regionList",
        "replication", "replicationLocation", "replicationProgress", "requestPayment", "requesterQosInfo",
        "resourceGroup", "resourcePool", "resourcePoolBuckets", "resourcePoolInfo", "response-cache-control",
        "response-content-disposition", "response-content-encoding", "response-content-language",
        "response-content-type", "response-expires", "restore", "seal", "security-token", "sequential", "startTime",
        "stat", "status", "style", "styleName", "symlink", "tagging", "transferAcceleration", "uploadId", "uploads",
        "versionId", "versioning", "versions", "vod", "website", "worm", "wormExtend", "wormId", "x-oss-async-process",
        "x-oss-process", "x-oss-request-payer", "x-oss-traffic-limit",
    ]

    /// `date` is the `Date` line: a date, or the seconds at which a presigned request expires. `resource` names bucket
    /// and key, plain.
    static func stringToSign(_ request: ServerRequest, resource: ByteString, date: String) -> ByteString {
        var text = "\(request.method)\n\(request.header("content-md5") ?? "")\n"
        text += "\(request.header("content-type") ?? "")\n\(date)\n"
        for name in Set(request.headerNames.filter { $0.hasPrefix("x-oss-") }).sorted() {
            text += "\(name):\(request.header(name) ?? "")\n"
        }
        var bytes = ByteString(text) + resource
        let signed = request.query.filter { subresources.contains($0.name) || $0.name.hasPrefix("x-oss-ac-") }
        for (index, item) in signed.sorted(by: { $0.name < $1.name }).enumerated() {
            bytes += ByteString((index == 0 ? "?" : "&") + item.name + (item.value.isEmpty ? "" : "="))
            bytes += item.value
        }
        return bytes
    }

    static func sign(_ stringToSign: ByteString, secret: String) -> String {
        Base64.encode(HMAC.sha1(stringToSign.bytes, key: Array(secret.utf8)))
    }
}
