import Basics

extension OverlaidStore {
    /// Objects asked for at the same time.
    private static let width = 16
    /// How far the store's clock may be behind ours.
    private static let skew = Duration.seconds(5)

    /// A page with the recent writes laid over it. Whoever sets a limit gets as many entries as there are up to it, perhaps
    /// more.
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        var request = request
        // Everything up to it was on the pages before.
        var bound = request.startAfter
        if let cursor = request.cursor { (bound, request.cursor) = cursor.parts }
        let limit = request.limit ?? 1
        var whole = ListingPage()
        var progress = ListingProgress()
        while true {
            let page = try await base.list(request)
            try progress.take(page)
            let last = [page.objects.last?.key.bytes, page.commonPrefixes.last?.bytes, bound].compactMap(\.self).max()
            let claims = recent.claims(on: request, after: bound, through: page.next == nil ? nil : last ?? "")
            let corrected = claims.isEmpty ? page : try await lay(claims, over: page, of: request)
            whole.objects += corrected.objects
            whole.commonPrefixes += corrected.commonPrefixes
            bound = last
            guard let next = page.next else { return whole }
            if whole.objects.count + whole.commonPrefixes.count >= limit {
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
                if let listed, listed.version.etag != write.outdated, listed.version.modified + Self.skew > write.at {
                    doubtful.append(Doubt(key: key, write: write, listed: listed))
                } else {
                    objects[key] = nil
                }
            case .present(let object):
                if listed?.version.etag == object.version.etag { continue }
                if listed == nil || listed?.version.etag == write.outdated {
                    objects[key] = object
                } else {
                    doubtful.append(Doubt(key: key, write: write, listed: listed))
                }
            case .replaced(let etag):
                if listed?.version.etag != etag { doubtful.append(Doubt(key: key, write: write, listed: listed)) }
            case .unknown: doubtful.append(Doubt(key: key, write: write, listed: listed))
            }
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
            let thinned = claims.thinned.filter { prefixes.contains($0.key) }.map { (prefix: $0.key, number: $0.value) }
            let gone = try await concurrently(thinned, width: Self.width) {
                (thinned) throws(ObjectStoreError) -> ObjectKey? in
                if try await list(ListRequest(prefix: thinned.prefix.bytes, limit: 1)).isEmpty { return thinned.prefix }
                recent.keep(thinned.prefix, despite: thinned.number)
                return nil
            }
            prefixes.subtract(gone.compactMap(\.self))
        }
        return ListingPage(
            objects: objects.values.sorted { $0.key < $1.key }, commonPrefixes: prefixes.sorted(), next: page.next)
    }

    /// A key at which a listing and what is known do not agree.
    private struct Doubt: Sendable {
        let key: ObjectKey
        let write: RecentWrites.Write
        let listed: ListedObject?
    }

    /// What the store has at the key; nil: nothing.
    private func ask(_ doubt: Doubt) async throws(ObjectStoreError) -> ListedObject? {
        let listed = doubt.listed?.version.etag
        let info: ObjectInfo
        do { info = try await base.head(doubt.key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            recent.settle(doubt.key, doubt.write, .absent, outdated: listed)
            return nil
        }
        let object = ListedObject(doubt.key, info)
        recent.settle(
            doubt.key, doubt.write, .present(object), outdated: listed == info.version.etag ? nil : listed)
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
