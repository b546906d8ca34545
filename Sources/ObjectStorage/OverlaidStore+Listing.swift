import Basics

extension OverlaidStore {
    /// Objects asked for at the same time.
    private static let width = 16
    /// Most entries that are asked for beside those of a limit, in place of what was removed: they cost no request.
    private static let mostSpare = 998

    /// A page with the recent writes laid over it. Whoever sets a limit gets as many entries as its base gave, perhaps
    /// more, up to it at least where some were taken away.
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        var request = request
        // Everything up to it was on the pages before.
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
            // Some stores tell of their end by one more page, which nobody needs who has all that is there.
            let count = whole.objects.count + whole.commonPrefixes.count
            if count >= limit || count >= listed && listed > 0 && !recent.mayAdd(to: request, after: last) {
                whole.next = ListingCursor(after: bound, next)
                return whole
            }
            request.cursor = next
            // A page on which little is left is followed by others like it.
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
                // Somebody else may have made it again.
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
        let found = try await concurrently(doubtful, width: Self.width) { (doubt) throws(ObjectStoreError) in
            (key: doubt.key, object: try await ask(doubt))
        }
        for (key, object) in found { objects[key] = object }
        prefixes.formUnion(claims.prefixes)
        // A bucket of an account is there whatever it holds.
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

    /// Whether what is listed may be other than what was there before the write, and there instead of what it made.
    private func isNews(_ listed: ListedObject, after write: RecentWrites.Write) -> Bool {
        !write.replaces(listed.version) && recent.mayBe(listed.version, since: write.began)
    }

    /// The first and the last of the objects of each directory on a page: what stands for the directory is the first one.
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

    /// A key at which a listing and what is known do not agree.
    private struct Doubt: Sendable {
        let key: ObjectKey
        let write: RecentWrites.Write
        let listed: ListedObject?
    }

    /// What the store has at the key; nil: nothing.
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
    /// The base's cursor of a page, and the last entry of those before, which its own form need not tell.
    fileprivate init(after last: ByteString?, _ cursor: ListingCursor) {
        let last = last ?? ""
        self.init(ByteString("\(last.count) ") + last + cursor.bytes)
    }

    /// nil for the last entry: there was none.
    fileprivate var parts: (last: ByteString?, base: ListingCursor) {
        let digits = bytes.bytes.prefix { $0 != UInt8(ascii: " ") }
        guard let count = Int(String(decoding: digits, as: UTF8.self)) else { return (nil, self) }
        let rest = bytes.bytes.dropFirst(digits.count + 1)
        return (count == 0 ? nil : ByteString(rest.prefix(count)), ListingCursor(ByteString(rest.dropFirst(count))))
    }
}
