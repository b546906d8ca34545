import Basics
import Foundation
import ObjectStorage
import TestSupport
import Testing

/// One promise of `ObjectStore`, and what proves it on any store.
struct Promise: Sendable, CustomTestStringConvertible {
    let sentence: String
    let proof: @Sendable (Bucket) async throws -> Void

    init(_ sentence: String, _ proof: @escaping @Sendable (Bucket) async throws -> Void) {
        (self.sentence, self.proof) = (sentence, proof)
    }

    var testDescription: String { sentence }

    static let all: [Promise] = [objects, names, listings, copies, uploads, access].flatMap(\.self)

    func prove() async throws {
        try await proof(Bucket(fixture: try #require(Fixture.current)))
    }
}

/// The part of a fixture's bucket that one proof has for itself: every name is below a prefix of its own.
struct Bucket: Sendable {
    let fixture: Fixture
    let prefix = ByteString("\(UUID().uuidString.lowercased())/")

    var store: any ObjectStore { fixture.store }
    var differences: Differences { fixture.differences }
    var capabilities: Capabilities { store.capabilities }

    /// A value for every header that the store says it keeps.
    var everyHeader: ObjectMetadata {
        var metadata = Promise.everyHeader
        let kept = capabilities.headers
        if !kept.contains(.cacheControl) { metadata.cacheControl = nil }
        if !kept.contains(.contentDisposition) { metadata.contentDisposition = nil }
        if !kept.contains(.contentEncoding) { metadata.contentEncoding = nil }
        if !kept.contains(.contentLanguage) { metadata.contentLanguage = nil }
        if !kept.contains(.expires) { metadata.expires = nil }
        return metadata
    }

    /// The names that keys can be made of here.
    var oddNames: [ByteString] {
        Promise.oddNames + [Promise.longName(capabilities.longestKey - prefix.count)]
    }

    func key(_ name: ByteString) -> ObjectKey { ObjectKey(prefix + name) }

    @discardableResult
    func put(
        _ name: ByteString, _ content: [UInt8] = Array("content".utf8), metadata: ObjectMetadata = ObjectMetadata(),
        condition: WriteCondition? = nil
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await store.put(
            PutRequest(key(name), metadata: metadata, condition: condition), body: MemorySource(content))
    }

    func head(_ name: ByteString, _ condition: ReadCondition? = nil) async throws(ObjectStoreError) -> ObjectInfo {
        try await store.head(key(name), condition: condition)
    }

    func get(
        _ name: ByteString, _ range: ByteRange? = nil, condition: ReadCondition? = nil
    ) async throws(ObjectStoreError) -> (answer: GetAnswer, bytes: [UInt8]) {
        let sink = CollectingSink()
        let answer = try await store.get(GetRequest(key(name), range: range, condition: condition), into: sink)
        return (answer, sink.bytes)
    }

    func content(_ name: ByteString) async throws(ObjectStoreError) -> [UInt8] { try await get(name).bytes }

    struct Listing {
        var objects: [ByteString] = []
        var prefixes: [ByteString] = []
        var pages = 0
        var entries: [ListedObject] = []
    }

    /// Every page of a listing, names without this bucket's own prefix.
    func list(
        _ prefix: ByteString = "", delimiter: Character? = nil, startAfter: ByteString? = nil, limit: Int? = nil
    ) async throws -> Listing {
        var request = ListRequest(
            prefix: self.prefix + prefix, delimiter: delimiter?.asciiValue,
            startAfter: startAfter.map { self.prefix + $0 }, limit: limit)
        var listing = Listing()
        while true {
            let page = try await store.list(request)
            listing.entries += page.objects
            listing.objects += page.objects.map { $0.key.bytes.dropFirst(self.prefix.count) }
            listing.prefixes += page.commonPrefixes.map { $0.bytes.dropFirst(self.prefix.count) }
            listing.pages += 1
            if let limit { #expect(page.objects.count + page.commonPrefixes.count <= limit) }
            guard let next = page.next else { return listing }
            try #require(listing.pages < 1000, "the listing does not end")
            request.cursor = next
        }
    }
}

/// The kind of error that `body` ends with; nil when it succeeds.
func failure<Value>(_ body: () async throws -> Value) async -> ObjectStoreError.Kind? {
    do {
        _ = try await body()
    } catch let error as ObjectStoreError {
        return error.kind
    } catch { Issue.record(error) }
    return nil
}
