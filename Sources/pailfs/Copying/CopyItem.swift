import Basics
import Glibc
import ObjectStorage

/// One file or object to be copied.
struct CopyItem: Sendable, Hashable {
    enum Source: Sendable, Hashable {
        /// A local file; a symbolic link at the end of the path is followed.
        case file(String)
        /// A local directory without entries.
        case emptyDirectory(String)
        /// An object; nil where no listing has shown it.
        case object(ObjectKey, ListedObject?)

        /// A key or path.
        var name: ByteString {
            switch self {
            case .file(let path), .emptyDirectory(let path): ByteString(path)
            case .object(let key, _): key.bytes
            }
        }
    }

    let source: Source
    /// Below the destination; empty for the destination itself. Ends in a slash for a directory's marker.
    let name: ByteString
    /// In bytes; 0 if unknown.
    var size: Int64 = 0

    /// Whether it is a directory's marker: an empty object whose key ends in a slash.
    var isMarker: Bool {
        switch source {
        case .file: false
        case .emptyDirectory: true
        case .object(let key, let listed): key.bytes.hasSuffix("/") && listed?.version.size == 0
        }
    }
}

/// What the walk through a source finds next.
enum WalkEntry: Sendable, Equatable {
    case item(CopyItem)
    /// A name that is not copied, and why.
    case refused(ByteString, String)
}

/// The files of a source, one after the other. Used by one task.
protocol CopyWalk: Sendable {
    /// nil at the end.
    mutating func next() async throws(ObjectStoreError) -> WalkEntry?
}

/// A source that is one file or object.
struct SingleWalk: CopyWalk {
    private var item: CopyItem?

    init(_ item: CopyItem) { self.item = item }

    mutating func next() -> WalkEntry? {
        defer { item = nil }
        return item.map { .item($0) }
    }
}

/// The files below a local directory, in the order of their names.
///
/// Symbolic links are refused, or followed. A link that leads back to a directory above it is refused then.
struct LocalWalk: CopyWalk {
    private struct Directory: Sendable {
        let path: String
        let name: ByteString
        /// The directory and those above it.
        let chain: [FileIdentity]
    }

    private enum Pending: Sendable {
        case directory(Directory)
        case found(WalkEntry)
    }

    private let followsLinks: Bool
    private var pending: [Pending] = []

    /// `beginning` is what the names begin with.
    init(_ top: String, beginning: ByteString, followsLinks: Bool) throws(ObjectStoreError) {
        self.followsLinks = followsLinks
        do throws(FileError) {
            guard let status = try LocalFileStatus(of: File.resolved(top) ?? top) else {
                throw FileError(errno: ENOENT, operation: "copy", path: top)
            }
            let directory = Directory(path: top, name: beginning, chain: [status.identity])
            if status.kind == .directory {
                pending = [.directory(directory)]
            } else {
                pending = [.found(.item(CopyItem(source: .file(top), name: beginning, size: status.size)))]
            }
        } catch { throw ObjectStoreError(error, .put) }
    }

    mutating func next() -> WalkEntry? {
        while let last = pending.popLast() {
            switch last {
            case .found(let found): return found
            case .directory(let directory):
                do throws(FileError) { try list(directory) } catch {
                    return .refused(ByteString(directory.path), "\(error)")
                }
            }
        }
        return nil
    }

    private mutating func list(_ directory: Directory) throws(FileError) {
        let names = try Basics.Directory.names(in: directory.path).sorted { $1 < $0 }
        if names.isEmpty, !directory.name.isEmpty {
            let item = CopyItem(source: .emptyDirectory(directory.path), name: directory.name + "/")
            pending.append(.found(.item(item)))
        }
        for name in names { pending.append(try look(at: name, in: directory)) }
    }

    private func look(at name: ByteString, in directory: Directory) throws(FileError) -> Pending {
        let top = directory.path.hasSuffix("/") ? String(directory.path.dropLast()) : directory.path
        let path = "\(top)/\(name)"
        func refused(_ reason: String) -> Pending { .found(.refused(ByteString(top) + "/" + name, reason)) }
        guard CopyPlan.isUTF8(name) else { return refused("the name is not UTF-8") }
        do throws(FileError) {
            guard var status = try LocalFileStatus(of: path) else { return refused("it was removed meanwhile") }
            if status.kind == .symbolicLink {
                guard followsLinks else { return refused("it is a symbolic link; -L copies the file it points to") }
                guard let target = File.resolved(path), let found = try LocalFileStatus(of: target) else {
                    return refused("it is a symbolic link to a file that does not exist")
                }
                status = found
            }
            let below = CopyPlan.path(directory.name, name)
            switch status.kind {
            case .file: return .found(.item(CopyItem(source: .file(path), name: below, size: status.size)))
            case .directory:
                guard !directory.chain.contains(status.identity) else {
                    return refused("it is a symbolic link to a directory above it")
                }
                return .directory(Directory(path: path, name: below, chain: directory.chain + [status.identity]))
            case .symbolicLink, .other: return refused("it is neither a file nor a directory")
            }
        } catch { return refused("\(error)") }
    }
}

/// The objects below a prefix, page by page, in the order of their keys.
struct ListedWalk: CopyWalk {
    private let store: any ObjectStore
    private let prefix: ByteString
    private let beginning: ByteString
    private let followsLinks: Bool
    private var request: ListRequest?
    private var progress = ListingProgress()
    private var page: [ListedObject] = []
    private var index = 0

    /// `prefix` is empty or ends in a slash; `beginning` is what the names begin with.
    init(_ store: any ObjectStore, prefix: ByteString, beginning: ByteString, followsLinks: Bool) {
        (self.store, self.prefix, self.beginning) = (store, prefix, beginning)
        (self.followsLinks, request) = (followsLinks, ListRequest(prefix: prefix))
    }

    mutating func next() async throws(ObjectStoreError) -> WalkEntry? {
        while true {
            while index < page.count {
                index += 1
                if let found = found(page[index - 1]) { return found }
            }
            guard var request else { return nil }
            let next = try await store.list(request)
            try progress.take(next)
            (page, index) = (next.objects, 0)
            request.cursor = next.next
            self.request = next.next == nil ? nil : request
        }
    }

    /// nil for the marker of the prefix itself.
    private func found(_ object: ListedObject) -> WalkEntry? {
        let name = object.key.bytes.dropFirst(prefix.count)
        if name.isEmpty { return nil }
        guard followsLinks || !object.isSymlink else {
            return .refused(object.key.bytes, "it is a symbolic link; -L copies the object it points to")
        }
        let item = CopyItem(
            source: .object(object.key, object), name: CopyPlan.path(beginning, name), size: object.version.size)
        return .item(item)
    }
}
