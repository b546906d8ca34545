import Basics
import Metadata
import ObjectStorage
import TestSupport

struct Contradiction: Error, CustomStringConvertible {
    let description: String
}

struct CacheModel {
    struct State {
        let since: Timestamp
        /// nil: not there. Of a directory any text.
        let etag: String?
        let isOurs: Bool
    }

    /// A request whose answer is not recorded yet.
    enum Answer {
        case page(ListingIngest, ListingPage)
        case head(ByteString, InodeNumber, ByteString, String?, RequestStart)
        case nothing(ByteString, InodeNumber, RequestStart)

        var listing: ListingIngest? {
            if case .page(let ingest, _) = self { ingest } else { nil }
        }
    }

    var fixture: CacheFixture
    var random: SeededGenerator
    var bucket: [ByteString: String] = [:]
    var history: [ByteString: [State]] = [:]
    /// Ours, not in the bucket yet, by key.
    var pending: [ByteString: InodeNumber] = [:]
    /// Keys that were pending at a crash: what the cache knew of them is lost, which is no claim.
    var forgotten: Set<ByteString> = []
    var listings: [(ingest: ListingIngest, after: ByteString?)] = []
    var answers: [Answer] = []
    var given: Set<InodeNumber> = [.root]
    var counter = 0
    var log: [String] = []

    static let names: [ByteString] = ["a", "a-1", "a.t", "a.rclonelink", "b", "c", "%%x"]
    static let folders: [ByteString] = ["a/", "d/", "e/"]
    let start: Timestamp

    init(seed: UInt64) throws {
        fixture = try CacheFixture(ttl: .seconds(10))
        random = SeededGenerator(seed: seed)
        start = fixture.time.now()
    }

    // MARK: The bucket

    mutating func put(_ key: ByteString, ours: Bool) -> String {
        counter += 1
        bucket[key] = "v\(counter)"
        note(ours: ours ? [key] : [])
        return "v\(counter)"
    }

    mutating func delete(_ key: ByteString, ours: Bool) {
        bucket[key] = nil
        note(ours: ours ? [key] : [])
    }

    /// Adds to the history of each key and directory what changed.
    mutating func note(ours: Set<ByteString>) {
        let now = fixture.time.now()
        var current = bucket.mapValues { Optional($0) }
        for key in bucket.keys {
            for index in key.bytes.indices where key.bytes[index] == UInt8(ascii: "/") {
                current[ByteString(key.bytes[...index])] = "directory"
            }
        }
        for key in Set(history.keys).union(current.keys).union(ours) {
            let etag = current[key] ?? nil
            if history[key]?.last?.etag != etag || ours.contains(key) {
                history[key, default: []].append(State(since: now, etag: etag, isOurs: ours.contains(key)))
            }
        }
    }

    func states(_ key: ByteString) -> [State] {
        [State(since: .distantPast, etag: nil, isOurs: false)] + (history[key] ?? [])
    }

    /// Whether a key may be said to be in this state.
    func isTrue(_ key: ByteString, _ etag: String?, fresh: Bool) -> Bool {
        let states = states(key)
        let first = states.lastIndex { $0.isOurs } ?? 0
        return states.indices.contains { index in
            guard index >= first, states[index].etag == etag else { return false }
            guard fresh, index + 1 < states.count else { return true }
            return fixture.time.now() - states[index + 1].since < fixture.ttl
        }
    }

    // MARK: Acting

    mutating func act() throws -> String {
        fixture.time.advance(by: .milliseconds(1))
        let directories = try directories()
        let (path, ino) = directories.randomElement(using: &random) ?? ("", .root)
        let name = Self.names.randomElement(using: &random) ?? "a"
        let key = path + name
        var action = "nothing"
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<12:
            let remote = randomKey()
            _ = put(remote, ours: false)
            action = "remote put \(remote)"
        case 12..<20:
            if let remote = bucket.keys.sorted().randomElement(using: &random), pending[remote] == nil {
                delete(remote, ours: false)
                action = "remote delete \(remote)"
            }
        case 20..<30:
            listings.append((try fixture.cache.beginListing(of: ino), nil))
            action = "begin listing \(path)"
        case 30..<45: action = requestPage()
        case 45..<60: action = try record()
        case 60..<64: action = requestHead(path, ino)
        case 64..<74: action = try create(key, name, ino)
        case 74..<79: action = try commit()
        case 79..<85: action = try remove(ino)
        case 85..<90: action = try rename(ino, to: directories.randomElement(using: &random) ?? ("", .root), name)
        case 90..<92: action = try makeDirectory(path, ino)
        case 92..<94: action = try renameDirectory(ino)
        case 94..<95:
            try fixture.cache.invalidate(ino, subtree: Bool.random(using: &random))
            action = "invalidate \(path)"
        case 95..<99:
            let pause = Int.random(in: 1...6, using: &random)
            fixture.time.advance(by: .seconds(pause))
            action = "wait \(pause) s"
        default:
            listings = []
            answers = []
            try fixture.reopen()
            forgotten.formUnion(pending.keys)
            pending = [:]
            action = "reopen"
        }
        log.append(action)
        return action
    }

    mutating func randomKey() -> ByteString {
        var key: ByteString = ""
        for _ in 0..<Int.random(in: 0...2, using: &random) { key += Self.folders.randomElement(using: &random) ?? "" }
        return Bool.random(using: &random) && !key.isEmpty && Bool.random(using: &random)
            ? key : key + (Self.names.randomElement(using: &random) ?? "")
    }

    /// Directories the cache knows, by path.
    func directories() throws -> [(ByteString, InodeNumber)] {
        var found: [(ByteString, InodeNumber)] = [("", .root)]
        var index = 0
        while index < found.count {
            let (path, ino) = found[index]
            for child in try fixture.cache.children(of: ino, after: nil, limit: 1000)
            where child.attributes.kind == .directory { found.append((path + child.component, child.ino)) }
            index += 1
        }
        return found
    }

    /// A page of two or three keys as the bucket has them now.
    mutating func requestPage() -> String {
        guard let index = listings.indices.randomElement(using: &random) else { return "no listing" }
        let (ingest, after) = listings[index]
        let limit = Int.random(in: 2...3, using: &random)
        var components: [ByteString] = []
        for key in bucket.keys where key.hasPrefix(ingest.key) {
            let rest = key.dropFirst(ingest.key.count).bytes
            let cut = rest.firstIndex(of: UInt8(ascii: "/")).map { ByteString(rest[...$0]) } ?? ByteString(rest)
            if after.map({ cut > $0 }) ?? true, !components.contains(cut) { components.append(cut) }
        }
        components.sort()
        let isLast = components.count <= limit
        components = Array(components.prefix(limit))
        var page = ListingPage(next: isLast ? nil : ListingCursor("next"))
        for component in components {
            let key = ObjectKey(ingest.key + component)
            if component.last == UInt8(ascii: "/") {
                page.commonPrefixes.append(key)
            } else {
                page.objects.append(
                    ListedObject(
                        key: key, version: version(bucket[key.bytes] ?? "", isMarker: component.isEmpty)))
            }
        }
        if isLast { listings.remove(at: index) } else { listings[index].after = components.last }
        answers.append(.page(ingest, page))
        return "page of \(ingest.key) after \(after?.description ?? "start"): \(components)"
    }

    func version(_ etag: String, isMarker: Bool = false) -> ObjectVersion {
        fixture.version(etag, size: isMarker ? 0 : 5)
    }

    mutating func requestHead(_ path: ByteString, _ ino: InodeNumber) -> String {
        let name = Self.names.randomElement(using: &random) ?? "a"
        let start = fixture.cache.beginRequest()
        let codec = fixture.cache.codec
        if let etag = bucket[path + name] {
            answers.append(.head(path + name, ino, name, etag, start))
            return "head \(path + name) there"
        }
        let base = codec.base(of: name)
        let others = NameCodec.Role.allCases.compactMap { codec.component(base, $0) }
        guard !others.contains(where: { other in states(path + other).last?.etag != nil }),
            let shown = codec.shownName(of: name)
        else { return "head of nothing" }
        answers.append(.nothing(shown, ino, start))
        return "head \(path + name) missing"
    }

    /// Answers to one listing come in order, otherwise any may be late.
    mutating func record() throws -> String {
        guard var index = answers.indices.randomElement(using: &random) else { return "no answer" }
        if let ingest = answers[index].listing {
            index = answers.firstIndex { $0.listing === ingest } ?? index
        }
        let answer = answers.remove(at: index)
        switch answer {
        case .page(let ingest, let page): return try record(page, ingest)
        case .head(let key, let parent, let component, let etag, let start):
            guard try fixture.cache.key(of: parent) == key.dropLast(component.count) else { return "parent moved" }
            guard try fixture.cache.entry(parent) != nil else { return "parent gone" }
            let kind = fixture.cache.codec.kind(of: component)
            let attributes = Attributes(
                kind: kind, size: 5, mtime: version("").modified, version: etag.map { version($0) })
            try fixture.cache.recordRemote(component, in: parent, attributes, metadata: nil, since: start)
            return "record head \(key)"
        case .nothing(let name, let parent, let start):
            guard try fixture.cache.entry(parent) != nil else { return "parent gone" }
            try fixture.cache.recordAbsent(name, in: parent, since: start)
            return "record missing \(name) in \(parent)"
        }
    }

    mutating func record(_ page: ListingPage, _ ingest: ListingIngest) throws -> String {
        do {
            try ingest.add(page)
            if page.next == nil { try ingest.finish() }
        } catch {
            guard error == .superseded else { throw error }
            listings.removeAll { $0.ingest === ingest }
            return "superseded \(ingest.key)"
        }
        return "record page of \(ingest.key)"
    }
}
