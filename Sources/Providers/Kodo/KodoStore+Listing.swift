import Basics
import HTTP
package import ObjectStorage

/// `/list` of rsf (Kodo API, list).
extension KodoStore {
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        guard let start = request.startAfter, request.cursor == nil else { return try await list(request, as: .list) }
        // The format of a marker is known but not documented: the server may refuse one made here, or use another position.
        var first = request
        first.startAfter = nil
        first.cursor = KodoMarker.after(start).map { ListingCursor(ByteString($0)) }
        var page: ListingPage
        do throws(ObjectStoreError) { page = try await list(first, as: .list) } catch {
            guard error.status == 640 else { throw error }
            first.cursor = nil
            page = try await list(first, as: .list)
        }
        while true {
            page.objects.removeAll { $0.key.bytes <= start }
            page.commonPrefixes.removeAll { $0.bytes <= start }
            guard page.isEmpty, let next = page.next else { return page }
            first.cursor = next
            page = try await list(first, as: .list)
        }
    }

    /// One page of the entries after the cursor.
    func list(
        _ request: ListRequest, as operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> ListingPage {
        var query = [
            "bucket=\(PercentEncoding.encode(settings.bucket))",
            "limit=\(min(max(request.limit ?? capabilities.listPage, 1), capabilities.listPage))",
            "prefix=\(PercentEncoding.encode(request.prefix))",
        ]
        if let delimiter = request.delimiter { query.append("delimiter=\(PercentEncoding.encode([delimiter]))") }
        let marker = request.cursor?.bytes
        if let marker { query.append("marker=\(PercentEncoding.encode(marker))") }
        var call = KodoClient.Call(operation, "/list?\(query.joined(separator: "&"))")
        (call.method, call.service, call.collectLimit) = (.get, .rsf, 16 << 20)
        let response = try await client.send(call)
        guard let list = KodoDocuments.decode(KodoDocuments.List.self, response.body) else {
            throw malformed(call, response, "the answer is not a listing")
        }
        var page = ListingPage()
        for item in list.items ?? [] {
            // Some records are empty although more follow.
            guard let key = item.key, !key.isEmpty, let version = item.version else { continue }
            page.objects.append(
                ListedObject(key: ObjectKey(key), version: version, storageClass: item.storageClass))
        }
        let last = marker.flatMap { KodoMarker($0.description)?.k }
        page.commonPrefixes = (list.commonPrefixes ?? []).filter { !$0.isEmpty && $0 != last }.map { ObjectKey($0) }
        if let next = list.marker, !next.isEmpty {
            guard ByteString(next) != marker else { throw malformed(call, response, "the listing does not advance") }
            page.next = ListingCursor(ByteString(next))
        }
        return page
    }
}
