import Basics
import Digests
import HTTP
import ObjectStorage

/// Stored headers as Swift has them: `X-Object-Meta-` and the few system headers it keeps (OpenStack Object Storage API, object
/// metadata).
///
/// A value has at most 256 bytes there, so a longer one is divided into several: `name`, `name-part-2`, `name-part-3`. They are
/// joined when read.
enum SwiftMetadata {
    static let prefix = "x-object-meta-"
    /// The upload to which a large object's segments belong, for servers that do not show it.
    static let uploadHeader = prefix + "pailfs-upload"
    /// Ceph's own property among the metadata of large objects.
    private static let staticLargeObject = "static-large-object"
    static let systemHeaders = [
        "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires",
    ]
    static let longestName = 128
    static let longestValue = 256
    static let mostItems = 90
    static let mostBytes = 4096
    /// The type of an object without one; otherwise the server would guess it from the name.
    static let defaultType = "application/octet-stream"

    /// Adds everything that is stored with an object; a POST removes the headers that it does not have.
    static func add(_ metadata: ObjectMetadata, to call: inout SwiftStore.Call) throws(ObjectStoreError) {
        call.headers["Content-Type"] = metadata.contentType ?? defaultType
        call.headers["Cache-Control"] = metadata.cacheControl
        call.headers["Content-Disposition"] = metadata.contentDisposition
        call.headers["Content-Encoding"] = metadata.contentEncoding
        call.headers["Content-Language"] = metadata.contentLanguage
        call.headers["Expires"] = metadata.expires
        let items = items(metadata.user)
        let bytes = items.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard items.count <= mostItems, bytes <= mostBytes, items.allSatisfy({ $0.name.utf8.count <= longestName })
        else {
            throw ObjectStoreError(
                .metadataTooLarge, call.operation, key: call.key, code: "MetadataTooLarge",
                message: "the metadata has \(items.count) items with \(bytes) bytes; the store keeps \(mostItems) with "
                    + "\(mostBytes), and names of \(longestName)")
        }
        for item in items { call.headers[prefix + item.name] = item.value }
    }

    /// The metadata in `headers`, in the form of `add`.
    static func read(_ headers: HTTPHeaders) -> ObjectMetadata {
        var metadata = ObjectMetadata(contentType: headers["Content-Type"])
        metadata.cacheControl = text(headers["Cache-Control"])
        metadata.contentDisposition = text(headers["Content-Disposition"])
        metadata.contentEncoding = text(headers["Content-Encoding"])
        metadata.contentLanguage = text(headers["Content-Language"])
        metadata.expires = text(headers["Expires"])
        for field in headers.fields {
            let name = field.name.lowercased()
            if name.hasPrefix(prefix) { metadata.user[String(name.dropFirst(prefix.utf8.count))] = field.value }
        }
        metadata.user[String(uploadHeader.dropFirst(prefix.utf8.count))] = nil
        metadata.user[staticLargeObject] = nil
        join(&metadata.user)
        return metadata
    }

    /// The value of `uploadHeader` of the upload's object at `key`. A copy that another tool makes has the header too, and the
    /// key in it shows that the segments are not the copy's.
    static func ownership(of upload: UploadID, at key: ObjectKey) -> String {
        "\(upload.text)/\(Hex.encode(MD5.of(key.bytes.bytes)))"
    }

    /// The upload whose segments belong to the object at `key` with these `headers`.
    static func upload(_ headers: HTTPHeaders, at key: ObjectKey) -> UploadID? {
        guard let upload = sharedUpload(headers), headers[uploadHeader] == ownership(of: upload, at: key) else {
            return nil
        }
        return upload
    }

    /// The upload whose segments the object consists of, even if they belong to another object.
    static func sharedUpload(_ headers: HTTPHeaders) -> UploadID? {
        guard let name = headers[uploadHeader]?.prefix(while: { $0 != "/" }), name.utf8.count == 32,
            name.utf8.allSatisfy({ Hex.value($0) != nil })
        else { return nil }
        return UploadID(String(name))
    }

    /// Ceph keeps a removed header with an empty value.
    private static func text(_ header: String?) -> String? { header.flatMap { $0.isEmpty ? nil : $0 } }

    private static func items(_ user: [String: String]) -> [(name: String, value: String)] {
        user.sorted { $0.key < $1.key }.flatMap { name, value in
            let bytes = Array(value.utf8)
            return stride(from: 0, to: max(bytes.count, 1), by: longestValue).map { start in
                let part = String(decoding: bytes[start..<min(bytes.count, start + longestValue)], as: UTF8.self)
                return (start == 0 ? name : partName(name, start / longestValue + 1), part)
            }
        }
    }

    /// Only a value that fills its header can continue in another.
    private static func join(_ user: inout [String: String]) {
        for (name, value) in user where value.utf8.count == longestValue {
            var (whole, number) = (value, 2)
            while let part = user.removeValue(forKey: partName(name, number)) {
                whole += part
                number += 1
            }
            if number > 2 { user[name] = whole }
        }
    }

    private static func partName(_ name: String, _ number: Int) -> String { "\(name)-part-\(number)" }
}
