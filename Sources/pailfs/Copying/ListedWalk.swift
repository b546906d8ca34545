import Basics
import Metadata
import ObjectStorage

/// The objects below a prefix, page by page, in the order of their keys.
struct ListedWalk: CopyWalk {
    private let store: any ObjectStore
    private let prefix: ByteString
    private let beginning: ByteString
    private let followsLinks: Bool
    /// Finds the links of the mount that the source is in; nil where every key is a file.
    private let linkNames: NameCodec?
    private var request: ListRequest?
    private var progress = ListingProgress()
    private var page: [ListedObject] = []
    private var index = 0
    /// The marker of the prefix itself, until there is another object.
    private var marker: CopyItem?

    /// `prefix` is empty or ends in a slash; `beginning` is what the names begin with.
    init(
        _ store: any ObjectStore, prefix: ByteString, beginning: ByteString, followsLinks: Bool,
        linkNames: NameCodec? = nil
    ) {
        (self.store, self.prefix, self.beginning) = (store, prefix, beginning)
        (self.followsLinks, self.linkNames) = (followsLinks, linkNames)
        request = ListRequest(prefix: prefix)
    }

    mutating func next() async throws(ObjectStoreError) -> WalkEntry? {
        while true {
            while index < page.count {
                index += 1
                if let found = found(page[index - 1]) {
                    marker = nil
                    return found
                }
            }
            guard var request else {
                defer { marker = nil }
                return marker.map { .item($0) }
            }
            let next = try await store.list(request)
            try progress.take(next)
            (page, index) = (next.objects, 0)
            request.cursor = next.next
            self.request = next.next == nil ? nil : request
        }
    }

    /// nil for the marker of the prefix itself.
    private mutating func found(_ object: ListedObject) -> WalkEntry? {
        let key = object.key.bytes
        let name = key.dropFirst(prefix.count)
        if name.isEmpty {
            guard object.version.size == 0 else {
                return .refused(key, "its key is that of the directory; copy it alone")
            }
            marker = CopyItem(
                source: .object(object.key, object), name: beginning.isEmpty ? "" : beginning + "/")
            return nil
        }
        if let linkNames, !name.hasSuffix("/"), linkNames.role(of: CopyPlan.lastName(of: name)) == .link {
            return .refused(key, "it is a symbolic link; copy it with cp(1) or as scheme://bucket/key")
        }
        guard followsLinks || !object.isSymlink else {
            return .refused(key, "it is a symbolic link; -L copies the object it points to")
        }
        // A listing has the version of a link, not that of the object it points to.
        let item = CopyItem(
            source: .object(object.key, object.isSymlink ? nil : object), name: CopyPlan.path(beginning, name),
            size: object.isSymlink ? 0 : object.version.size)
        return .item(item)
    }
}
