import Basics

/// Many deletions in one request (Swift documentation, bulk delete): the status is 200 whatever happened, and the body tells.
extension CSSPDialect {
    private static let mostDeletions = 10_000

    struct BulkReport {
        var status = "200 OK"
        var body = ""
        var deleted = 0
        var missing = 0
        var errors: [(name: String, status: String)] = []

        func response(_ request: ServerRequest) -> ServerResponse {
            if request.header("accept")?.contains("json") == true {
                return CSSPDialect.json([
                    "Response Status": .string(status), "Response Body": .string(body),
                    "Number Deleted": .number(Int64(deleted)), "Number Not Found": .number(Int64(missing)),
                    "Errors": .array(errors.map { .array([.string($0.name), .string($0.status)]) }),
                ])
            }
            let lines =
                "Number Deleted: \(deleted)\nNumber Not Found: \(missing)\nResponse Body: \(body)\n"
                + "Response Status: \(status)\nErrors:\n" + errors.map { "\($0.name), \($0.status)\n" }.joined()
            return ServerResponse(
                status: 200, headers: [Field("Content-Type", "text/plain")], body: .bytes(Array(lines.utf8)))
        }
    }

    func bulkDelete(_ call: CSSPCall) async throws(CSSPError) -> ServerResponse {
        var report = BulkReport()
        let type = call.request.header("content-type") ?? "text/plain"
        guard type.hasPrefix("text/plain") else {
            (report.status, report.body) = ("406 Not Acceptable", "Content-Type must be text/plain")
            return report.response(call.request)
        }
        let body: [UInt8]
        do { body = try await call.body.collect(limit: Self.mostDeletions * 4096) } catch { throw CSSPError(413) }
        let lines = body.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
            .map { $0.hasSuffix("\r") ? String($0.dropLast()) : $0 }.filter { !$0.isEmpty }
        guard lines.count <= Self.mostDeletions else {
            (report.status, report.body) = (
                "413 Request Entity Too Large", "Maximum Bulk Deletes: \(Self.mostDeletions) per request"
            )
            return report.response(call.request)
        }
        for line in lines { delete(line, &report) }
        if !report.errors.isEmpty { report.status = "400 Bad Request" }
        if lines.isEmpty { (report.status, report.body) = ("400 Bad Request", "Invalid bulk delete.") }
        if report.deleted == 0, report.missing > 0, report.errors.isEmpty { report.status = "404 Not Found" }
        return report.response(call.request)
    }

    /// One line: a container, or an object of one; what is not there is as good as deleted.
    private func delete(_ line: String, _ report: inout BulkReport) {
        let name = line.hasPrefix("/") ? String(line.dropFirst()) : line
        do throws(CSSPError) {
            if let object = CopySource(name) {
                let bucket = try bucket(object.bucket)
                _ = try stored(object.key, in: bucket)
                try CSSPError.storing { () throws(StorageError) in
                    _ = try bucket.delete(object.key, now: options.time.now())
                }
            } else {
                let container = PercentEncoding.decode(name).map { ByteString($0).description } ?? name
                try CSSPError.storing { () throws(StorageError) in try library.deleteBucket(container) }
            }
            report.deleted += 1
        } catch {
            if error.status == 404 {
                report.missing += 1
            } else {
                report.errors.append((name, "\(error.status) \(CSSPError.title(error.status))"))
            }
        }
    }

    /// `?multipart-manifest=delete`: the segments first, the manifest last.
    func deleteWithSegments(_ call: CSSPCall, in bucket: Bucket) throws(CSSPError) -> ServerResponse {
        var report = BulkReport()
        let path = "\(call.target.container)/\(call.key)"
        guard let object = try? stored(call.key, in: bucket) else {
            (report.status, report.missing) = ("404 Not Found", 1)
            return report.response(call.request)
        }
        guard case .named(let manifest) = try view(object, in: bucket, checksSegments: false).kind else {
            report.status = "400 Bad Request"
            report.errors = [(path, "Not an SLO manifest")]
            return report.response(call.request)
        }
        for segment in manifest.segments where !segment.isData {
            delete(PercentEncoding.encode(segment.path, keepingSlash: true), &report)
        }
        delete(PercentEncoding.encode(path, keepingSlash: true), &report)
        if !report.errors.isEmpty { report.status = "400 Bad Request" }
        return report.response(call.request)
    }
}
