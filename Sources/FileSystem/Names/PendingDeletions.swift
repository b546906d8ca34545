import Basics
import ObjectStorage
import Synchronization

/// Unlinked objects that open handles still need, by key. Each is deleted when its file's last handle is closed. Until then it is
/// left out of listings, so that its directory can be removed, renamed and made again.
///
/// A leaf lock.
/// After a crash: each has a row in the journal, and the next mount deletes them.
final class PendingDeletions: Sendable {
    private let files = Mutex<[ObjectKey: ActiveFile]>([:])

    subscript(_ key: ObjectKey) -> ActiveFile? {
        get { files.withLock { $0[key] } }
        set { files.withLock { $0[key] = newValue } }
    }

    var all: [ActiveFile] { files.withLock { Array($0.values) } }

    func keys(below prefix: ByteString) -> [ObjectKey] {
        files.withLock { $0.keys.filter { $0.bytes.hasPrefix(prefix) } }
    }

    func remove(_ key: ObjectKey) -> ActiveFile? { files.withLock { $0.removeValue(forKey: key) } }

    /// Removes the object if it is that of `file`.
    func remove(_ key: ObjectKey, of file: ActiveFile) { files.withLock { if $0[key] === file { $0[key] = nil } } }

    /// The version of each that is to be deleted. A version that another host has put there since is not.
    fileprivate var versions: [ObjectKey: ETag?] {
        files.withLock { $0 }.mapValues { file in file.state.withLock { $0.life.removal?.version?.etag } }
    }
}

extension ObjectStore {
    /// A page of a listing without the objects to be deleted, and without common prefixes that have only such objects. A common
    /// prefix with such an object costs one more request, which shows whether there are others. Pages are read until there are as
    /// many entries as the limit, or one entry without a limit: some stores send empty pages before others.
    func list(
        _ request: ListRequest, without pendingDeletions: PendingDeletions
    ) async throws(ObjectStoreError) -> ListingPage {
        var request = request
        var whole = ListingPage()
        var progress = ListingProgress()
        while true {
            // An object that comes or goes while the store answers is in one of the two sets.
            let before = pendingDeletions.versions
            var page = try await list(request)
            try progress.take(page)
            let hidden = before.merging(pendingDeletions.versions) { old, _ in old }
            if hidden.isEmpty, !page.isEmpty || page.next == nil, whole == ListingPage() { return page }
            func isHidden(_ object: ListedObject) -> Bool {
                guard let version = hidden[object.key] else { return false }
                return version == nil || version == object.version.etag
            }
            page.objects.removeAll(where: isHidden)
            for prefix in page.commonPrefixes {
                let below = hidden.keys.count { $0.bytes.hasPrefix(prefix.bytes) }
                if below == 0 { continue }
                if try await hasOnly(isHidden, below: prefix, atMost: below) {
                    page.commonPrefixes.removeAll { $0 == prefix }
                }
            }
            whole.objects += page.objects
            whole.commonPrefixes += page.commonPrefixes
            whole.next = page.next
            let count = whole.objects.count + whole.commonPrefixes.count
            guard let next = page.next, count < request.limit ?? 1 else { return whole }
            request.cursor = next
        }
    }

    /// Whether all objects below a prefix, expected to be `count` at most, are such. Some stores have a next page that is empty.
    private func hasOnly(
        _ isSuch: (ListedObject) -> Bool, below prefix: ObjectKey, atMost count: Int
    ) async throws(ObjectStoreError) -> Bool {
        var request = ListRequest(prefix: prefix.bytes, limit: count + 1)
        while true {
            let page = try await list(request)
            guard page.objects.allSatisfy(isSuch) else { return false }
            guard let next = page.next else { return true }
            request.cursor = next
        }
    }
}
