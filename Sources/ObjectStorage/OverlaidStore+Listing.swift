import Basics

extension OverlaidStore {
    /// Objects that are checked with HEAD at the same time.
    private static let width = 16
    /// Most entries requested beyond a limit, to replace removed ones: they cost no request.
    private static let mostSpare = 998

    /// A page of the base with the recent writes laid over it. A request with a limit gets as many entries as the base gave,
    /// perhaps more; where some were removed, at least up to the limit.
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        var request = request
        // The pages before have shown everything up to `bound`.
        var bound = request.startAfter
        if let cursor = request.cursor { (bound, request.cursor) = cursor.parts }
        let limit = request.limit ?? 1
        request.limit = request.limit.map { $0 + recent.count(below: request.prefix, upTo: Self.mostSpare) }
        var whole = ListingPage()
        var listed = 0
        var progress = ListingProgress()
        while true {
            let page = try await base.list(request)
            try progress.take(page)
            let last = [page.objects.last?.key.bytes, page.commonPrefixes.last?.bytes, bound].compactMap(\.self).max()
            let claims = recent.claims(on: request, after: bound, through: page.next == nil ? nil : last ?? "")
            let corrected = claims.isEmpty ? page : try await lay(claims, over: page, of: request)
            recent.sight(Self.witnesses(corrected.objects))
            listed += page.objects.count + page.commonPrefixes.count
            whole.objects += corrected.objects
            whole.commonPrefixes += corrected.commonPrefixes
            bound = last
            guard let next = page.next else { return whole }
            // Some stores end a listing with an empty page, which is not needed once all entries are there.
            let count = whole.objects.count + whole.commonPrefixes.count
            if count >= limit || count >= listed && listed > 0 && !recent.mayAdd(to: request, after: last) {
                whole.next = ListingCursor(after: bound, next)
                return whole
            }
            request.cursor = next
            // A page with few remaining entries is mostly followed by others like it.
            request.limit = nil
        }
    }

    private func lay(
        _ claims: RecentWrites.Claims, over page: ListingPage, of request: ListRequest
    ) async throws(ObjectStoreError) -> ListingPage {
        var objects = Dictionary(page.objects.map { ($0.key, $0) }) { first, _ in first }
        var prefixes = Set(page.commonPrefixes)
        var doubtful: [Doubt] = []
        for (key, write) in claims.objects {
            let listed = objects[key]
            switch write.state {
            case .absent:
                // Another client may have made the object again.
                if let listed, isNews(listed, after: write) {
                    doubtful.append(Doubt(key: key, write: write, listed: listed))
                } else {
                    objects[key] = nil
                }
            case .present(let object):
                if listed?.version.etag == object.version.etag { continue }
                if let listed, isNews(listed, after: write) {
                    doubtful.append(Doubt(key: key, write: write, listed: listed))
                } else {
                    objects[key] = object
                }
            case .replaced(let etag):
                if listed?.version.etag != etag { doubtful.append(Doubt(key: key, write: write, listed: listed)) }
            case .unknown: doubtful.append(Doubt(key: key, write: write, listed: listed))
            }
        }
        let clean = claims.gone.isEmpty ? [] : Set(claims.objects.map(\.key))
        for (key, listed) in objects where !clean.contains(key) {
            guard let at = claims.gone.last(where: { key.bytes.hasPrefix($0.prefix) })?.at else { continue }
            objects[key] = nil
            guard recent.mayBe(listed.version, since: at) else { continue }
            recent.remember(key, nil, at: at)
            if let write = recent[key] { doubtful.append(Doubt(key: key, write: write, listed: listed)) }
        }
        let found = try await concurrently(doubtful, width: Self.width) {
            (doubt) throws(ObjectStoreError) -> (key: ObjectKey, object: ListedObject?) in
            let object = try await ask(doubt)
            return (key: doubt.key, object: object)
        }
        for (key, object) in found { objects[key] = object }
        prefixes.formUnion(claims.prefixes)
        // A bucket of an account exists even if it is empty.
        if !(capabilities.bucketsInKeys && request.prefix.isEmpty) {
            let below = claims.doubtful.filter { !prefixes.contains($0.prefix) }
            let made = try await concurrently(below, width: Self.width) { (doubt) throws(ObjectStoreError) in
                try await ask(Doubt(key: doubt.key, write: doubt.write, listed: nil)) == nil ? nil : doubt.prefix
            }
            prefixes.formUnion(made.compactMap(\.self))
            prefixes.subtract(claims.empty.subtracting(made.compactMap(\.self)))
            var thinned = claims.thinned.filter { prefixes.contains($0.key) }.map { (prefix: $0.key, number: $0.value) }
            thinned += prefixes.filter { prefix in
                !claims.prefixes.contains(prefix) && claims.thinned[prefix] == nil
                    && claims.gone.contains { prefix.bytes.hasPrefix($0.prefix) }
            }.map { ($0, 0) }
            let gone = try await concurrently(thinned, width: Self.width) {
                (thinned) throws(ObjectStoreError) -> ObjectKey? in
                guard try await list(ListRequest(prefix: thinned.prefix.bytes, limit: 1)).isEmpty else { return nil }
                recent.noteEmpty(thinned.prefix, since: thinned.number)
                return thinned.prefix
            }
            prefixes.subtract(gone.compactMap(\.self))
        }
        return ListingPage(
            objects: objects.values.sorted { $0.key < $1.key }, commonPrefixes: prefixes.sorted(), next: page.next)
    }

    /// Whether the listed object may be neither the one before the write nor the one that the write made.
    private func isNews(_ listed: ListedObject, after write: RecentWrites.Write) -> Bool {
        !write.replaces(listed.version) && recent.mayBe(listed.version, since: write.began)
    }

    /// The first and the last object of each directory on a page; the directory's own marker is the first.
    private static func witnesses(_ objects: [ListedObject]) -> [ObjectKey] {
        let directories = objects.map { object in
            let bytes = object.key.bytes.bytes
            return bytes[..<(bytes.lastIndex(of: UInt8(ascii: "/")) ?? 0)]
        }
        return objects.indices.filter { index in
            index == 0 || directories[index - 1] != directories[index] || index + 1 == objects.count
                || directories[index + 1] != directories[index]
        }.map { objects[$0].key }
    }

    /// A key at which a listing contradicts a recent write.
    private struct Doubt: Sendable {
        let key: ObjectKey
        let write: RecentWrites.Write
        let listed: ListedObject?
    }

    /// The object at the key, from the store; nil if there is none.
    private func ask(_ doubt: Doubt) async throws(ObjectStoreError) -> ListedObject? {
        let listed = doubt.listed?.version
        let info: ObjectInfo
        do { info = try await base.head(doubt.key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            recent.miss(doubt.key)
            recent.settle(doubt.key, doubt.write, .absent, outdated: listed)
            return nil
        }
        let object = ListedObject(doubt.key, info)
        recent.settle(
            doubt.key, doubt.write, .present(object), outdated: listed?.etag == info.version.etag ? nil : listed)
        return object
    }
}

extension ListingCursor {
    /// The base's cursor, with the last entry of the pages before, which the base's cursor need not contain.
    fileprivate init(after last: ByteString?, _ cursor: ListingCursor) {
        let last = last ?? ""
        self.init(ByteString("\(last.count) ") + last + cursor.bytes)
    }

    /// The last entry is nil if there was none.
    fileprivate var parts: (last: ByteString?, base: ListingCursor) {
        let digits = bytes.bytes.prefix { $0 != UInt8(ascii: " ") }
        guard let count = Int(String(decoding: digits, as: UTF8.self)) else { return (nil, self) }
        let rest = bytes.bytes.dropFirst(digits.count + 1)
        return (count == 0 ? nil : ByteString(rest.prefix(count)), ListingCursor(ByteString(rest.dropFirst(count))))
    }
}
