import Basics
import Digests

/// Copies at the server, as PUT with `X-Copy-From` and as COPY with `Destination` (OpenStack Object Storage API, copy object).
extension CSSPDialect {
    func copyObject(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let request = call.request
        if request.contentLength ?? 0 > 0 || request.hasHeader("transfer-encoding") {
            throw .plain(400, "Copy requests require a zero byte body")
        }
        let isCopyMethod = request.method == "COPY"
        guard let other = CopySource(request.header(isCopyMethod ? "destination" : "x-copy-from") ?? "") else {
            let name = isCopyMethod ? "Destination" : "X-Copy-From"
            throw .plain(412, "\(name) header must be of the form <container name>/<object name>")
        }
        let here = (container: call.target.container, key: call.key)
        let there = (container: other.bucket, key: other.key)
        let (from, to) = isCopyMethod ? (here, there) : (there, here)
        let source = try bucket(from.container)
        let target = try bucket(to.container)
        try checkKey(to.key)
        let object = try stored(from.key, in: source)
        let view = try view(object, in: source)
        switch ReadConditions(request).check(etag: view.etag, modified: view.record.modified) {
        case .go: break
        case .failed: return ServerResponse(status: 412, headers: headers(of: view))
        case .notModified: return ServerResponse(status: 304, headers: headers(of: view))
        }
        var description = try merged(try self.description(request), over: view, request)
        let (content, etag, shown): (Content, String, String)
        if request.parameter("multipart-manifest") == "get", view.isLarge {
            // The manifest alone: the segments belong to both from now on.
            description.properties += object.record.description.properties.filter {
                [Self.manifestProperty, Self.segmentsProperty].contains($0.name)
            }
            content = try join([(object.content, 0..<object.content.size)], in: target)
            (etag, shown) = (object.record.etag, view.etagHeader)
        } else {
            (content, etag) = try flattened(view, request, in: target)
            shown = etag
        }
        let copy = try commit(to.key, content, etag, description, WriteCondition(), in: target)
        let name = "\(PercentEncoding.encode(from.container))/\(PercentEncoding.encode(from.key, keepingSlash: true))"
        return written(shown, copy).adding([
            Field("X-Copied-From", name), Field("X-Copied-From-Last-Modified", object.record.modified.httpDate),
        ])
    }

    /// The bytes as one plain object.
    private func flattened(
        _ view: CSSPObject, _ request: ServerRequest, in target: Bucket
    ) throws(CSSPError) -> (Content, String) {
        var range: ByteRange = 0..<view.size
        if let header = request.header("range"), let asked = RequestedRange(header) {
            guard let resolved = asked.resolve(size: view.size) else { throw CSSPError(416) }
            range = resolved
        }
        guard range.length <= Self.largestPut else { throw CSSPError(413) }
        let content = try join([(view.content, range)], in: target)
        if !view.isLarge, range.length == view.size { return (content, view.etag) }
        let md5 = try CSSPError.storing { () throws(StorageError) in try content.digest(0..<content.size).md5 }
        return (content, Hex.encode(md5))
    }

    /// What the request says over what the source has, name by name; `X-Fresh-Metadata` leaves the source's out.
    private func merged(
        _ new: ObjectDescription, over view: CSSPObject, _ request: ServerRequest
    ) throws(CSSPError) -> ObjectDescription {
        let source = view.record.description
        var description = new
        func fill(_ fields: inout [Field], from old: [Field]) {
            fields += old.filter { field in !fields.contains { $0.name == field.name } }
        }
        let isFresh = ["true", "1", "on", "yes", "t", "y"].contains(
            request.header("x-fresh-metadata")?.lowercased() ?? "")
        if isFresh {
            fill(&description.headers, from: source.headers.filter { $0.name == "content-type" })
        } else {
            fill(&description.headers, from: source.headers)
            fill(&description.metadata, from: source.metadata)
            fill(&description.properties, from: source.properties.filter { $0.name == Self.expiryProperty })
        }
        return description
    }
}
