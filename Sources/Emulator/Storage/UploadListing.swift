import Basics
import Synchronization

/// One page of a bucket's uploads.
package struct UploadPage: Sendable {
    package var listing = ListingResult<Upload>()
    package var isTruncated = false

    package var items: [ListingResult<Upload>.Item] { listing.items }
    /// Empty when the page ends with a common prefix.
    package var lastUploadID: String {
        guard case .entry(_, let upload)? = items.last else { return "" }
        return upload.id
    }
}

extension Bucket {
    /// Uploads by key and then by age. With `afterID` the page starts behind that upload of the key `after`; without, it
    /// starts behind all uploads of that key.
    package func listUploads(_ request: ListingRequest, afterID id: String) -> UploadPage {
        state.withLock { state in
            let uploads = state.uploads
            var page = UploadPage()
            guard request.limit > 0 else { return page }
            var place = uploads.firstPosition {
                $0.key < request.prefix || (id.isEmpty ? $0.key <= request.after : $0.key < request.after)
            }
            if !id.isEmpty, request.commonPrefix(of: request.after) == nil {
                // Those of the marked key up to the marked one; if it ended meanwhile, all of them are shown again.
                var seeker = place
                while let entry = uploads.entry(at: seeker), entry.key.key == request.after {
                    seeker = uploads.position(after: seeker)
                    if entry.value.id == id {
                        place = seeker
                        break
                    }
                }
            }
            if let group = request.commonPrefix(of: request.after), group == request.after {
                place = uploads.firstPosition {
                    $0.key < request.prefix || $0.key <= group || $0.key.hasPrefix(group)
                }
            }
            while let entry = uploads.entry(at: place), entry.key.key.hasPrefix(request.prefix) {
                if page.items.count == request.limit {
                    page.isTruncated = true
                    break
                }
                if let group = request.commonPrefix(of: entry.key.key) {
                    page.listing.items.append(.commonPrefix(group))
                    place = uploads.firstPosition { $0.key < group || $0.key.hasPrefix(group) }
                } else {
                    page.listing.items.append(.entry(entry.key.key, entry.value))
                    place = uploads.position(after: place)
                }
            }
            return page
        }
    }
}
