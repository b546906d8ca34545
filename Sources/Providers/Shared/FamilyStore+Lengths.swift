import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Sizes of objects whose HEAD has no Content-Length: empty objects at Cloudflare R2, and objects that a proxy compresses.
extension FamilyStore {
    /// Takes the size from a listing; where that is refused, or shows another version, from a GET of one byte.
    /// Listings show the latest version only.
    func sizeUntold(
        by head: HTTPResponse, of key: ObjectKey, version: String?
    ) async throws(ObjectStoreError) -> Int64? {
        guard let etag = head.headers["ETag"].map({ ETag($0) }) else { return nil }
        note(.lengthsMissing)
        if version == nil, let listed = try? await listed(key), listed.version.etag == etag {
            return listed.version.size
        }
        var call = Call(.head, .get, key)
        if let version { call.query = [Self.versionItem(version)] }
        Self.add(.ifMatch(etag), to: &call.headers)
        addCustomerKey(to: &call.headers)
        call.headers["Range"] = "bytes=0-0"
        for header in profile.rangeHeaders { call.headers[header.name] = header.value }
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send(call) { $0.isSuccess ? .refuse : .collect } } catch {
            // An empty object has no first byte.
            guard error.kind == .invalidRange else { throw error }
            return 0
        }
        return Self.contentRange(response.headers)?.total ?? response.headers["Content-Length"].flatMap { Int64($0) }
    }
}
