import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// Listings of a container (OpenStack Object Storage API, containers; CSSP API, listings).
extension SwiftStore {
    /// An entry of a listing whose object may be larger than listed.
    struct ListedState: Hashable, Sendable {
        let key: ObjectKey
        let modified: Timestamp
    }

    private static let emptyHash = "d41d8cd98f00b204e9800998ecf8427e"

    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        if segments.hides(request.prefix) { return ListingPage() }
        let most = learned.withLock { $0.listPage }
        let limit = min(request.limit ?? most, most)
        let found: [SwiftDocuments.Entry]
        do throws(ObjectStoreError) { found = try await self.entries(request, limit: limit) } catch {
            // The server's pages are smaller than requested.
            guard error.status == 412, limit > Self.safeListPage else { throw error }
            learned.withLock { $0.listPage = Self.safeListPage }
            return try await list(request)
        }
        var page = ListingPage()
        let entries = found.filter { entry in
            entry.length != nil && !((entry.subdir ?? entry.name).map { segments.hides(ByteString($0)) } ?? false)
        }
        for entry in entries {
            if let prefix = entry.subdir {
                guard !prefix.isEmpty else { continue }
                page.commonPrefixes.append(ObjectKey(prefix))
            } else if let name = entry.name, !name.isEmpty {
                page.objects.append(object(name, entry))
            }
        }
        if let last = found.last.flatMap({ $0.subdir ?? $0.name }),
            profile.listsUntilEmptyPage || found.count >= min(limit, Self.leastFullPage)
        {
            guard ByteString(last) != request.cursor?.bytes else {
                throw ObjectStoreError(
                    .malformedAnswer, .list, code: "MalformedAnswer",
                    message: "the listing does not advance after \(last)")
            }
            page.next = ListingCursor(segments.hides(ByteString(last)) ? segments.endOfArea : ByteString(last))
        }
        try await look(behind: entries, in: &page)
        try await hideParts(in: &page)
        return page
    }

    func entries(
        _ request: ListRequest, limit: Int
    ) async throws(ObjectStoreError) -> [SwiftDocuments.Entry] {
        var call = call(.list, .get)
        call.collectLimit = 32 << 20
        call.query = [QueryItem("format", "json"), QueryItem("limit", String(limit))]
        if !request.prefix.isEmpty { call.query.append(QueryItem("prefix", request.prefix)) }
        if let delimiter = request.delimiter { call.query.append(QueryItem("delimiter", ByteString([delimiter]))) }
        if let marker = request.cursor?.bytes ?? request.startAfter { call.query.append(QueryItem("marker", marker)) }
        return try entries(call, try await send(call))
    }

    func entries(_ call: Call, _ response: HTTPResponse) throws(ObjectStoreError) -> [SwiftDocuments.Entry] {
        guard let entries = SwiftDocuments.entries(response.body) else {
            throw malformed(call, response, "the listing is not valid JSON")
        }
        return entries
    }

    private func object(_ name: String, _ entry: SwiftDocuments.Entry) -> ListedObject {
        let key = ObjectKey(name)
        let etag = ETag(entry.sloETag ?? entry.hash ?? "")
        let version = ObjectVersion(etag: etag, size: entry.length ?? 0, modified: entry.modified ?? .epoch)
        if entry.sloETag != nil || version.size > 0 && entry.hash != Self.emptyHash {
            learned.withLock { _ = $0.shapes.insert(entry.sloETag == nil ? .plain : .large, for: key) }
        }
        return ListedObject(key: key, version: version)
    }

    /// A large object by prefix, and a link, are listed as empty (as Swift answers), and Ceph lists a manifest of segments
    /// with the manifest's length and the ETag of no bytes: only a HEAD shows the object. One HEAD is sent for each, as long as
    /// it is listed with the same time.
    private func look(
        behind entries: [SwiftDocuments.Entry], in page: inout ListingPage
    ) async throws(ObjectStoreError) {
        let suspects = entries.compactMap { entry -> ListedState? in
            guard let name = entry.name, !name.hasSuffix("/"), entry.sloETag == nil,
                entry.hash == Self.emptyHash || entry.symlinkPath != nil && entry.length == 0,
                entry.contentType != "application/directory"
            else { return nil }
            return ListedState(key: ObjectKey(name), modified: entry.modified ?? .epoch)
        }
        guard !suspects.isEmpty else { return }
        let unknown = learned.withLock { learned in suspects.filter { learned.unlisted.value(for: $0) == nil } }
        let failures = await eightAtOnce(unknown) { state throws(ObjectStoreError) in
            let call = self.call(.list, .head, state.key)
            let response: HTTPResponse
            do throws(ObjectStoreError) { response = try await self.send(call) } catch {
                guard error.status == 404 else { throw error }
                return
            }
            let version = try self.info(call, response, size: nil).version
            self.learned.withLock { _ = $0.unlisted.insert(version, for: state) }
        }
        if let failure = failures.first { throw failure }
        let known = learned.withLock { learned in
            Dictionary(
                suspects.compactMap { state in learned.unlisted.value(for: state).map { (state.key, $0) } },
                uniquingKeysWith: { first, _ in first })
        }
        for index in page.objects.indices {
            guard let version = known[page.objects[index].key] else { continue }
            page.objects[index].version.etag = version.etag
            page.objects[index].version.size = version.size
        }
    }
}
