import Basics

extension OverlaidStore {
    /// Objects asked for at the same time.
    private static let width = 16

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
            let corrected = claims.isEmpty ? page : try await lay(claims, over: page)
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
        _ claims: RecentWrites.Claims, over page: ListingPage
    ) async throws(ObjectStoreError) -> ListingPage {
        var objects = Dictionary(page.objects.map { ($0.key, $0) }) { first, _ in first }
        var prefixes = Set(page.commonPrefixes)
        var doubtful: [Doubt] = []
        for (key, write) in claims.objects {
            let listed = objects[key]
            switch write.state {
            case .absent: objects[key] = nil
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
        for (key, object) in try await ask(doubtful) { objects[key] = object }
        prefixes.formUnion(claims.prefixes)
        for (key, write, prefix) in claims.doubtful where !prefixes.contains(prefix) {
            let found = try await ask(Doubt(key: key, write: write, listed: nil))
            if found != nil { prefixes.insert(prefix) }
        }
        for (prefix, number) in claims.thinned where prefixes.contains(prefix) {
            if try await list(ListRequest(prefix: prefix.bytes)).isEmpty {
                prefixes.remove(prefix)
            } else {
                recent.keep(prefix, despite: number)
            }
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

    /// What the store has at the keys; nil: nothing.
    private func ask(_ doubts: [Doubt]) async throws(ObjectStoreError) -> [(ObjectKey, ListedObject?)] {
        if doubts.isEmpty { return [] }
        typealias Answer = Result<(ObjectKey, ListedObject?), ObjectStoreError>
        let answers = await withTaskGroup(of: Answer.self) { group in
            var answers: [Answer] = []
            var rest = doubts.makeIterator()
            func addNext() {
                guard let doubt = rest.next() else { return }
                group.addTask {
                    do throws(ObjectStoreError) { return .success((doubt.key, try await ask(doubt))) } catch {
                        return .failure(error)
                    }
                }
            }
            for _ in 0..<Self.width { addNext() }
            for await answer in group {
                answers.append(answer)
                if case .success = answer { addNext() }
            }
            return answers
        }
        var found: [(ObjectKey, ListedObject?)] = []
        for answer in answers { found.append(try answer.get()) }
        return found
    }

    private func ask(_ doubt: Doubt) async throws(ObjectStoreError) -> ListedObject? {
        let info: ObjectInfo
        do { info = try await base.head(doubt.key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            recent.settle(doubt.key, doubt.write, .absent)
            return nil
        }
        let object = ListedObject(doubt.key, info)
        let listed = doubt.listed?.version.etag
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
