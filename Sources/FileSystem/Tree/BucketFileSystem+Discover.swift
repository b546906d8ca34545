import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Asking the store about a name of which nothing is known.
extension BucketFileSystem {
    /// Looks up a name of which nothing is known. The first one in a directory costs one listing at that name. The second one
    /// lists the directory's first page, which in most directories answers for every other name as well; many list all of it.
    /// Where the store refuses the listing, HEAD requests find the name.
    func discover(_ name: ByteString, in parent: InodeNumber) async throws(FileSystemError) -> Entry? {
        guard case .plain(let base) = metadata.codec.meaning(of: name) else {
            // An escaped name depends on its neighbours: only the whole listing shows it.
            return try await find(name, in: parent, pages: .max)
        }
        let directory = try cached { metadata throws(MetadataError) in try metadata.key(of: parent) } ?? ""
        if mayList(directory) {
            do throws(FileSystemError) { return try await list(base, name, in: parent) } catch {
                guard error.isOfRefusedListing else { throw error }
                noteRefusedListing(of: directory, error)
            }
        }
        return try await findUnlisted(base, name, in: parent)
    }

    private func list(
        _ base: ByteString, _ name: ByteString, in parent: InodeNumber
    ) async throws(FileSystemError) -> Entry? {
        let misses = noteMiss(in: parent)
        if misses == 2 {
            let answer = try await find(name, in: parent, pages: 1)
            if answer != nil { return answer }
            if case .absent = try cached({ metadata throws(MetadataError) in try metadata.lookup(name, in: parent) }) {
                forgetMisses(in: parent)
                return nil
            }
        } else if misses > 2, misses & (misses - 1) == 0 {
            listAhead(parent, pages: misses)
        }
        return try await listAt(base, name, in: parent)
    }

    /// Lists a directory in the background after many lookups, up to as many pages as there were lookups. Whatever its length,
    /// this at most doubles the requests of lookups one after the other.
    private func listAhead(_ directory: InodeNumber, pages: Int) {
        let listing = listings.join(directory, pages: pages)
        rooms.pool.start { [self] in
            defer { listing.leave(pages: pages) }
            while true {
                let progress = listing.progress
                if progress.isEnded && progress.error == nil { return forgetMisses(in: directory) }
                if progress.isEnded || progress.pages >= pages { return }
                do throws(FileSystemError) { try await listing.wait(after: progress.pages) } catch { return }
            }
        }
    }

    /// Lists the directory until it shows whether the name exists, or `pages` pages are in.
    private func find(
        _ name: ByteString, in parent: InodeNumber, pages: Int
    ) async throws(FileSystemError) -> Entry? {
        let listing = listings.join(parent, pages: pages)
        defer { listing.leave(pages: pages) }
        while true {
            let progress = listing.progress
            if let error = progress.error, error.kind != .interrupted { throw error }
            switch try cached({ metadata throws(MetadataError) in try metadata.lookup(name, in: parent) }) {
            case .present(let entry, isFresh: true): return entry
            case .absent: return nil
            // The listing has just brought it, however short the ttl.
            case .present(let entry, isFresh: false) where progress.isEnded: return entry
            case .present, .unknown: if progress.isEnded || progress.pages >= pages { return nil }
            }
            try await listing.wait(after: progress.pages)
        }
    }

    /// Lists one page at the name. It shows the file, the symlink and the directory of that name, unless many names between them
    /// start alike; only then the directory and the symlink are listed by themselves.
    private func listAt(
        _ base: ByteString, _ name: ByteString, in parent: InodeNumber
    ) async throws(FileSystemError) -> Entry? {
        let ingest = try cached { metadata throws(MetadataError) in
            try metadata.beginListing(of: parent, .prefix(base))
        }
        let page = try await remote { [pendingDeletions] store throws(ObjectStoreError) in
            try await store.list(
                ListRequest(prefix: ingest.key + base, delimiter: UInt8(ascii: "/")), without: pendingDeletions)
        }
        try cached { metadata throws(MetadataError) in try ingest.add(page) }
        if let entry = try present(name, in: parent) {
            // An entry past the end of the page was not seen now, and may be outdated.
            guard let frontier = ingest.frontier else { return entry }
            if entry.isPending || entry.component < frontier { return entry }
        }
        if page.next != nil {
            for role in [NameCodec.Role.directory, .link] {
                guard let component = metadata.codec.component(base, role) else { continue }
                // The object, which the page shows, takes the name before a link does.
                if role == .link, let entry = try present(name, in: parent),
                    entry.component == metadata.codec.component(base, .object)
                {
                    return entry
                }
                let start = metadata.beginRequest()
                let exact = try await remote { [pendingDeletions] store throws(ObjectStoreError) in
                    try await store.list(
                        ListRequest(prefix: ingest.key + component, limit: 1), without: pendingDeletions)
                }
                guard let object = exact.objects.first,
                    role == .directory || object.key.bytes == ingest.key + component
                else {
                    try cached { metadata throws(MetadataError) in
                        let known = try metadata.directory(of: component, in: parent)
                        if let known { try metadata.recordGone(known, since: start) }
                    }
                    continue
                }
                let attributes =
                    role == .directory
                    ? Attributes(kind: .directory, mtime: start.at) : Attributes(object, kind: .symlink)
                return try cached { metadata throws(MetadataError) in
                    try metadata.recordRemote(component, in: parent, attributes, metadata: nil, since: start)
                }
            }
            if let entry = try present(name, in: parent) { return entry }
        }
        try cached { metadata throws(MetadataError) in
            try metadata.recordAbsent(name, in: parent, since: ingest.start)
        }
        return nil
    }

    private func present(_ name: ByteString, in parent: InodeNumber) throws(FileSystemError) -> Entry? {
        guard
            case .present(let entry, _) = try cached({ metadata throws(MetadataError) in
                try metadata.lookup(name, in: parent)
            })
        else { return nil }
        return entry
    }

    /// Counts the lookups of unknown names in the directory since it was listed, this one among them, each within a minute of the
    /// one before.
    private func noteMiss(in directory: InodeNumber) -> Int {
        let now = time.now()
        return recentMisses.withLock { misses in
            let last = misses.value(for: directory)
            let count = last.map { now - $0.at < .seconds(60) ? $0.count + 1 : 1 } ?? 1
            misses.insert(Misses(count: count, at: now), for: directory)
            return count
        }
    }

    /// The directory was listed whole. The next lookup of an unknown name shows that this listing has expired.
    private func forgetMisses(in directory: InodeNumber) {
        let now = time.now()
        recentMisses.withLock { _ = $0.insert(Misses(count: 1, at: now), for: directory) }
    }
}

/// The number of lookups of unknown names in one directory, and the time of the last one.
struct Misses: Sendable {
    let count: Int
    let at: Timestamp
}
