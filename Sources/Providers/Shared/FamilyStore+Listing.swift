import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// ListObjectsV2 and its predecessor (Amazon S3 API, ListObjectsV2).
extension FamilyStore {
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        let version = learned.withLock { $0.list }
        let list: FamilyDocuments.List
        do throws(ObjectStoreError) { list = try await self.list(request, version: version) } catch {
            guard version == .two, error.kind == .notSupported else { throw error }
            return try await listWithVersionOne(request)
        }
        // A server that has only version 1 ignores the parameters of version 2: the token and the start.
        if version == .two, !list.hasKeyCount,
            list.isTruncated && list.nextToken == nil || request.cursor == nil && request.startAfter != nil
        {
            return try await listWithVersionOne(request)
        }
        var page = list.page
        hideRefused(in: &page)
        if list.isTruncated { page.next = try cursor(after: list, request, version) }
        return page
    }

    /// moto lists a key with a line break, and does not find its object: the key is hidden, as a lookup would fail.
    private func hideRefused(in page: inout ListingPage) {
        let refused = capabilities.keyRules.refusedKinds
        if refused.isEmpty { return }
        page.objects.removeAll { !refused.isDisjoint(with: KeyKind.kinds(of: $0.key.bytes)) }
        page.commonPrefixes.removeAll { !refused.isDisjoint(with: KeyKind.kinds(of: $0.bytes)) }
    }

    private func listWithVersionOne(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        learned.withLock { $0.list = .one }
        return try await list(request)
    }

    private func list(
        _ request: ListRequest, version: FamilyProfile.ListVersion
    ) async throws(ObjectStoreError) -> FamilyDocuments.List {
        var call = Call(.list, .get)
        // A thousand keys of a kilobyte each, percent-encoded.
        call.collectLimit = 16 << 20
        call.query = [QueryItem("prefix", request.prefix)]
        if let delimiter = request.delimiter { call.query.append(QueryItem("delimiter", ByteString([delimiter]))) }
        let limit = request.limit ?? (profile.namesPageSize ? capabilities.listPage : nil)
        if let limit { call.query.append(QueryItem("max-keys", String(limit))) }
        if profile.encodesListings { call.query.append(QueryItem("encoding-type", "url")) }
        switch version {
        case .two:
            call.query.append(QueryItem("list-type", "2"))
            if let cursor = request.cursor {
                call.query.append(QueryItem("continuation-token", cursor.bytes))
            } else if let start = request.startAfter {
                call.query.append(QueryItem("start-after", start))
            }
        case .one:
            if let marker = request.cursor?.bytes ?? request.startAfter {
                call.query.append(QueryItem("marker", marker))
            }
        }
        let response: HTTPResponse
        do { response = try await send(call) } catch {
            throw request.prefix.isEmpty ? error : await blaming(ObjectKey(request.prefix), for: error)
        }
        return try read(call, response) { [documents] body throws(XMLError) in try documents.list(body) }
    }

    /// Version 1 returns a marker only with a delimiter; otherwise the last key is the marker.
    private func cursor(
        after list: FamilyDocuments.List, _ request: ListRequest, _ version: FamilyProfile.ListVersion
    ) throws(ObjectStoreError) -> ListingCursor {
        let last = [list.page.objects.last?.key.bytes, list.page.commonPrefixes.last?.bytes].compactMap(\.self).max()
        guard let next = version == .two ? list.nextToken : list.nextMarker ?? last,
            next != request.cursor?.bytes
        else {
            throw ObjectStoreError(
                .malformedAnswer, .list, code: "MalformedAnswer",
                message: "the listing does not advance: it is not complete but has no new continuation token")
        }
        return ListingCursor(next)
    }
}
