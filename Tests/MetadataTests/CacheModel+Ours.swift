import Basics
import Metadata
import ObjectStorage
import TestSupport

/// What this mount does in the model.
extension CacheModel {
    func attributes(_ component: ByteString, _ etag: String?) -> Attributes {
        Attributes(
            kind: fixture.cache.codec.kind(of: component), size: 5, mode: 0o600,
            mtime: Timestamp(seconds: 1_650_000_000), version: etag.map { version($0) }, headersKnown: true)
    }

    mutating func create(_ key: ByteString, _ component: ByteString, _ ino: InodeNumber) throws -> String {
        let known = try child(component, of: ino)
        let isPending = Bool.random(using: &random)
        if let known {
            let base = isPending ? known.attributes.version?.etag.text : put(key, ours: true)
            try fixture.cache.update(known.ino, attributes(component, base), pending: isPending)
            pending[key] = isPending ? known.ino : nil
            return "overwrite \(key), pending \(isPending)"
        }
        let etag = isPending ? nil : put(key, ours: true)
        let entry = try fixture.cache.create(component, in: ino, attributes(component, etag), pending: isPending)
        guard given.insert(entry.ino).inserted else { throw Contradiction(description: "\(entry.ino) given twice") }
        if isPending { pending[key] = entry.ino }
        return "create \(key) as \(entry.ino), pending \(isPending)"
    }

    mutating func commit() throws -> String {
        guard let (key, ino) = pending.sorted(by: { $0.key < $1.key }).randomElement(using: &random) else {
            return "nothing to commit"
        }
        pending[key] = nil
        guard let entry = try fixture.cache.entry(ino) else { throw Contradiction(description: "\(key) lost") }
        try fixture.cache.update(ino, attributes(entry.component, put(key, ours: true)), pending: false)
        return "commit \(key)"
    }

    func child(_ component: ByteString, of ino: InodeNumber) throws -> Entry? {
        try fixture.cache.children(of: ino, after: nil, limit: 1000).first { $0.component == component }
    }

    mutating func remove(_ ino: InodeNumber) throws -> String {
        let children = try fixture.cache.children(of: ino, after: nil, limit: 1000)
        guard let victim = children.randomElement(using: &random), victim.attributes.kind != .directory,
            let key = try fixture.cache.key(of: victim.ino)
        else { return "nothing to remove" }
        pending[key] = nil
        delete(key, ours: true)
        try fixture.cache.remove(victim.ino)
        return "remove \(key)"
    }

    mutating func rename(
        _ ino: InodeNumber, to target: (ByteString, InodeNumber), _ name: ByteString
    ) throws -> String {
        let children = try fixture.cache.children(of: ino, after: nil, limit: 1000)
        guard let source = children.randomElement(using: &random), source.attributes.kind == .file,
            fixture.cache.codec.kind(of: name) == .file, let old = try fixture.cache.key(of: source.ino)
        else { return "nothing to rename" }
        let new = target.0 + name
        if new == old { return "rename to itself" }
        let isPending = pending.removeValue(forKey: old) != nil
        pending[new] = nil
        if isPending {
            delete(old, ours: true)
            pending[new] = source.ino
            try fixture.cache.rename(source.ino, to: target.1, name)
        } else {
            let etag = put(new, ours: true)
            delete(old, ours: true)
            try fixture.cache.rename(source.ino, to: target.1, name)
            try fixture.cache.update(source.ino, attributes(name, etag), pending: false)
        }
        guard try child(name, of: target.1)?.ino == source.ino else {
            throw Contradiction(description: "inode of \(new) not kept")
        }
        return "rename \(old) to \(new), pending \(isPending)"
    }

    mutating func makeDirectory(_ path: ByteString, _ ino: InodeNumber) throws -> String {
        let component = Self.folders.randomElement(using: &random) ?? "d/"
        let key = path + component
        guard key.count < 8, try child(component, of: ino) == nil,
            !bucket.keys.contains(where: { $0.hasPrefix(key) })
        else { return "directory exists" }
        let etag = put(key, ours: true)
        var attributes = fixture.folder
        attributes.version = version(etag, isMarker: true)
        try fixture.cache.create(component, in: ino, attributes, pending: false)
        return "mkdir \(key)"
    }

    /// As the filesystem does it: everything listed and clean, all copied, then the view switched, then the sources gone.
    mutating func renameDirectory(_ ino: InodeNumber) throws -> String {
        guard ino != .root, let old = try fixture.cache.key(of: ino) else { return "root stays" }
        let new: ByteString = Self.folders.randomElement(using: &random) ?? "e/"
        guard try child(new, of: .root) == nil, !bucket.keys.contains(where: { $0.hasPrefix(new) }),
            !pending.keys.contains(where: { $0.hasPrefix(old) })
        else { return "directory not to be renamed" }
        try listTree(ino)
        guard try fixture.cache.entry(ino) != nil, bucket.keys.contains(where: { $0.hasPrefix(old) }) else {
            return "directory gone"
        }
        var ours: Set<ByteString> = [old, new]
        for (key, etag) in bucket where key.hasPrefix(old) {
            let copy = new + key.dropFirst(old.count)
            bucket[copy] = etag
            bucket[key] = nil
            ours.formUnion([key, copy])
        }
        note(ours: ours)
        try fixture.cache.rename(ino, to: .root, new)
        return "rename directory \(old) to \(new)"
    }

    mutating func listTree(_ ino: InodeNumber) throws {
        let key = try fixture.cache.key(of: ino) ?? ""
        let prefixes = Set(
            bucket.keys.filter { $0.hasPrefix(key) }.map { full in
                let rest = full.dropFirst(key.count).bytes
                return rest.firstIndex(of: UInt8(ascii: "/")).map { ByteString(rest[...$0]) } ?? ByteString(rest)
            })
        let ingest = try fixture.cache.beginListing(of: ino)
        var page = ListingPage()
        for component in prefixes.sorted() {
            let object = ObjectKey(key + component)
            if component.last == UInt8(ascii: "/") {
                page.commonPrefixes.append(object)
            } else {
                page.objects.append(
                    ListedObject(
                        key: object, version: version(bucket[object.bytes] ?? "", isMarker: component.isEmpty)))
            }
        }
        try ingest.add(page)
        try ingest.finish()
        for child in try fixture.cache.children(of: ino, after: nil, limit: 1000)
        where child.attributes.kind == .directory { try listTree(child.ino) }
    }
}
