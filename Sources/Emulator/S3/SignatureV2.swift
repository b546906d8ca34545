import Basics
import Digests

/// Signature Version 2, which old compatible stores and old clients still speak ("Signing and authenticating REST
/// requests", Amazon S3 user guide).
package enum SignatureV2 {
    private static let subresources: Set<String> = [
        "accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory", "lifecycle", "location",
        "logging", "metrics", "notification", "object-lock", "partNumber", "policy", "replication", "requestPayment",
        "response-cache-control", "response-content-disposition", "response-content-encoding",
        "response-content-language", "response-content-type", "response-expires", "restore", "select", "select-type",
        "storageClass", "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning", "versions", "website",
    ]

    /// `bucket` is added to the resource when the host names it; `expires` stands in the date line of presigned requests.
    package static func stringToSign(_ request: ServerRequest, hostBucket: String?, expires: String? = nil) -> String {
        // A presigned request carries in its query what it would otherwise carry in headers.
        func value(_ name: String) -> String? {
            request.header(name) ?? (expires == nil ? nil : request.parameter(name))
        }
        var lines = [request.method, value("content-md5") ?? "", value("content-type") ?? ""]
        let hasAmazonDate = request.hasHeader("x-amz-date")
        lines.append(expires ?? (hasAmazonDate ? "" : request.header("date") ?? ""))
        let names = request.headerNames + (expires == nil ? [] : request.query.map(\.name))
        for name in Set(names.filter { $0.hasPrefix("x-amz-") }).sorted() {
            lines.append("\(name):\((value(name) ?? "").split(separator: " ").joined(separator: " "))")
        }
        lines.append(resource(request, hostBucket: hostBucket))
        return lines.joined(separator: "\n")
    }

    private static func resource(_ request: ServerRequest, hostBucket: String?) -> String {
        var resource = (hostBucket.map { "/\($0)" } ?? "") + request.path
        let isBareBucket = hostBucket == nil && request.path.count > 1 && !request.path.dropFirst().contains("/")
        if isBareBucket { resource += "/" }
        let parameters = request.query.filter { subresources.contains($0.name) }.sorted { $0.name < $1.name }
            .map { $0.value.isEmpty ? $0.name : "\($0.name)=\($0.value)" }
        return parameters.isEmpty ? resource : resource + "?" + parameters.joined(separator: "&")
    }

    package static func sign(_ stringToSign: String, secret: String) -> String {
        Base64.encode(HMAC.sha1(stringToSign, key: Array(secret.utf8)))
    }
}
