import Basics
import Synchronization

/// A version of a key, or a delete marker, in a listing.
package struct ListedVersion: Sendable {
    package let object: StoredObject
    package let isLatest: Bool
}

/// One page of the versions in a bucket.
package struct VersionPage: Sendable {
    package var listing = ListingResult<ListedVersion>()
    /// The version behind which the next page starts among those of the key `listing.next`; nil behind a common prefix.
    package var nextVersion: String?
}

extension Bucket {
    /// Every version and delete marker by key, newest first. With `afterVersion` the page starts behind that version of the
    /// key `after`; without, or when that is gone, behind all versions of that key. A bucket that never kept versions has
    /// one version of each key.
    package func listVersions(_ request: ListingRequest, afterVersion: String?) -> VersionPage {
        state.withLock { state in
            var page = VersionPage()
            guard request.limit > 0 else { return page }
            var walk = VersionWalk(state, request, resumesKey: afterVersion != nil)
            var lastVersion: String?
            while let key = walk.key {
                if let group = request.commonPrefix(of: key) {
                    if page.listing.items.count == request.limit { return page.cut(behind: lastVersion) }
                    page.listing.items.append(.commonPrefix(group))
                    lastVersion = nil
                    walk.skip(group)
                    continue
                }
                let versions = Array(state.versions(of: key).reversed())
                var rest = versions[...]
                if key == request.after, let afterVersion {
                    let marked = versions.firstIndex { $0.versionID == afterVersion }
                    rest = marked.map { versions[($0 + 1)...] } ?? []
                }
                for version in rest {
                    if page.listing.items.count == request.limit { return page.cut(behind: lastVersion) }
                    page.listing.items.append(
                        .entry(key, ListedVersion(object: version, isLatest: version === versions[0])))
                    lastVersion = version.versionID
                }
                walk.advance()
            }
            return page
        }
    }
}

extension VersionPage {
    fileprivate consuming func cut(behind version: String?) -> VersionPage {
        listing.next = listing.items.last?.name
        nextVersion = version
        return self
    }
}

/// Visits the keys of a bucket in order, those that only have a history too.
private struct VersionWalk {
    private let state: Bucket.State
    private let prefix: ByteString
    private var object: SortedIndex<ByteString, StoredObject>.Position
    private var history: SortedIndex<ByteString, [StoredObject]>.Position

    init(_ state: Bucket.State, _ request: ListingRequest, resumesKey: Bool) {
        (self.state, prefix) = (state, request.prefix)
        let after = request.after
        var liesBefore: (ByteString) -> Bool = { key in
            key < request.prefix || (resumesKey ? key < after : key <= after)
        }
        // A page that ended with a common prefix goes on behind everything below it.
        if let group = request.commonPrefix(of: after), group == after {
            liesBefore = { $0 < request.prefix || $0 <= group || $0.hasPrefix(group) }
        }
        object = state.objects.firstPosition(where: liesBefore)
        history = state.histories.firstPosition(where: liesBefore)
    }

    /// The key that is visited; nil at the end of the prefix.
    var key: ByteString? {
        let keys = [state.objects.entry(at: object)?.key, state.histories.entry(at: history)?.key]
        guard let key = keys.compactMap(\.self).min(), key.hasPrefix(prefix) else { return nil }
        return key
    }

    mutating func advance() {
        guard let key else { return }
        if state.objects.entry(at: object)?.key == key { object = state.objects.position(after: object) }
        if state.histories.entry(at: history)?.key == key { history = state.histories.position(after: history) }
    }

    /// Goes behind everything below `group`.
    mutating func skip(_ group: ByteString) {
        object = state.objects.firstPosition { $0 < group || $0.hasPrefix(group) }
        history = state.histories.firstPosition { $0 < group || $0.hasPrefix(group) }
    }
}
