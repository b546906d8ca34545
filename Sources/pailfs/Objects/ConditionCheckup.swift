import Basics
import ObjectStorage

/// Whether the store honours the conditions of requests: each is tried where it holds and where it does not.
struct ConditionCheckup {
    let session: ObjectStoreSession
    /// The same store, with every condition sent.
    let probe: ObjectStoreSession
    let place: DoctorPlace

    /// The store carried a request out, refused it, or was not asked.
    private enum Outcome: Sendable, Equatable {
        case done, refused
        /// The store has no such condition, or pailfs cannot send it.
        case absent
    }

    /// A request with a condition that holds, and one with a condition that does not.
    private struct Pair {
        let name: String
        /// Whether a mount relies on the condition, by the store's capabilities; otherwise a HEAD right before the request
        /// replaces it.
        let isReliedOn: Bool
        let holding: @Sendable (any ObjectStore) async throws(ObjectStoreError) -> Void
        let failing: @Sendable (any ObjectStore) async throws(ObjectStoreError) -> Void
        /// What is lost where a mount relies on a condition that the store ignores.
        let risk: String
    }

    func run(_ report: DoctorReport) {
        for pair in writes + [copySource, removal] { check(pair, report) }
        check("read if it matches", report)
    }

    private func check(_ pair: Pair, _ report: DoctorReport) {
        let before = probe.capabilities.quirks
        let holding: Outcome
        do throws(CommandError) { holding = try outcome(pair.holding) } catch {
            return report.compare(pair.name) { () throws(CommandError) in throw error }
        }
        guard holding != .absent else { return report.skip(pair.name, "not supported by this store; \(Self.standIn)") }
        report.compare(pair.name) { () throws(CommandError) in
            let failing = try outcome(pair.failing)
            let learned = probe.capabilities.quirks.subtracting(before)
            if failing == .done, pair.isReliedOn, learned.isEmpty {
                throw CommandError("ignored: \(pair.risk)")
            }
            if let quirk = learned.first { return "the server \(quirk)" }
            switch (holding, failing) {
            case (.done, .refused): return nil
            case (_, .done): return "ignored; \(Self.standIn)"
            default: return "refused although it holds; \(Self.standIn)"
            }
        }
    }

    private static let standIn = "a mount sends a HEAD before the request instead"

    private func outcome(
        _ request: @escaping @Sendable (any ObjectStore) async throws(ObjectStoreError) -> Void
    ) throws(CommandError) -> Outcome {
        try probe.answer { store async throws(ObjectStoreError) in
            do throws(ObjectStoreError) {
                try await request(store)
                return .done
            } catch {
                switch error.kind {
                // The store may answer so, too, when a condition names an object that does not exist.
                case .preconditionFailed, .notFound, .conflict: return .refused
                case .notSupported: return .absent
                default: throw error
                }
            }
        }
    }

    // MARK: The requests

    private typealias Write =
        @Sendable (any ObjectStore, ObjectKey, WriteCondition?, [UInt8]) async throws(ObjectStoreError) -> Void

    /// Another body than the first: Kodo accepts the same bytes once more, whatever the condition.
    private static let otherBody = Array("pailfs was here again".utf8)

    private var writes: [Pair] {
        let source = place.key("source")
        let put: Write = { store, key, condition, body async throws(ObjectStoreError) in
            _ = try await Self.put(store, key, condition, body)
        }
        let complete: Write = { store, key, condition, body async throws(ObjectStoreError) in
            try await Self.complete(store, key, condition, body)
        }
        let copy: Write = { store, key, condition, body async throws(ObjectStoreError) in
            _ = try await Self.put(store, source, nil, body)
            _ = try await store.copy(CopyRequest(CopySource(source), to: key, condition: condition))
        }
        let can = session.capabilities
        return pairs("put", can.putIfAbsent, can.putIfMatch, put)
            + pairs(
                "completion", can.putIfAbsent && can.completionCondition, can.putIfMatch && can.completionCondition,
                complete)
            + pairs("copy", can.putIfAbsent && can.copyCondition, can.putIfMatch && can.copyCondition, copy)
    }

    private func pairs(_ name: String, _ absent: Bool, _ match: Bool, _ write: @escaping Write) -> [Pair] {
        let (new, old) = (place.key(ByteString("\(name)-new")), place.key(ByteString("\(name)-old")))
        return [
            Pair(
                name: "\(name) if absent", isReliedOn: absent,
                holding: { store async throws(ObjectStoreError) in
                    try await write(store, new, .absent, DoctorPlace.body)
                },
                failing: { store async throws(ObjectStoreError) in try await write(store, new, .absent, Self.otherBody)
                },
                risk: "two hosts that make the same file at once can lose one of the two"),
            Pair(
                name: "\(name) if it matches", isReliedOn: match,
                holding: { store async throws(ObjectStoreError) in
                    let etag = try await Self.put(store, old, nil)
                    try await write(store, old, .match(etag), DoctorPlace.body)
                },
                failing: { store async throws(ObjectStoreError) in
                    _ = try await Self.put(store, old, nil)
                    try await write(store, old, .match(DoctorPlace.otherETag), Self.otherBody)
                },
                risk: "two hosts that change the same file at once can lose one of the changes"),
        ]
    }

    private var copySource: Pair {
        let (source, key) = (place.key("source"), place.key("copy"))
        return Pair(
            name: "copy of a version", isReliedOn: session.capabilities.copySourceCondition,
            holding: { store async throws(ObjectStoreError) in
                let etag = try await Self.put(store, source, nil)
                _ = try await store.copy(CopyRequest(CopySource(source, ifMatch: etag), to: key))
            },
            failing: { store async throws(ObjectStoreError) in
                _ = try await store.copy(CopyRequest(CopySource(source, ifMatch: DoctorPlace.otherETag), to: key))
            }, risk: "a file that is renamed while another host replaces it can be the wrong one")
    }

    private var removal: Pair {
        let key = place.key("removal")
        return Pair(
            name: "delete of a version", isReliedOn: session.capabilities.deleteIfMatch,
            holding: { store async throws(ObjectStoreError) in
                let etag = try await Self.put(store, key, nil)
                try await store.delete(key, ifMatch: etag)
            },
            failing: { store async throws(ObjectStoreError) in
                _ = try await Self.put(store, key, nil)
                try await store.delete(key, ifMatch: DoctorPlace.otherETag)
            }, risk: "a file that another host replaces while it is removed can be lost")
    }

    /// Without this condition nothing is lost: each answer has the ETag.
    private func check(_ name: String, _ report: DoctorReport) {
        let key = place.key("read")
        report.compare(name) { () throws(CommandError) in
            let right = try outcome { store async throws(ObjectStoreError) in
                let etag = try await Self.put(store, key, nil)
                _ = try await store.head(key, condition: .ifMatch(etag))
            }
            guard right == .done else {
                throw CommandError("refused with the ETag that the object has: files cannot be read again once cached")
            }
            let wrong = try outcome { store async throws(ObjectStoreError) in
                _ = try await store.head(key, condition: .ifMatch(DoctorPlace.otherETag))
            }
            return wrong == .refused ? nil : "ignored; a mount compares the ETag of each answer instead"
        }
    }

    private static func put(
        _ store: any ObjectStore, _ key: ObjectKey, _ condition: WriteCondition?, _ body: [UInt8] = DoctorPlace.body
    ) async throws(ObjectStoreError) -> ETag {
        try await store.put(PutRequest(key, condition: condition), body: MemorySource(body)).etag
    }

    private static func complete(
        _ store: any ObjectStore, _ key: ObjectKey, _ condition: WriteCondition?, _ body: [UInt8]
    ) async throws(ObjectStoreError) {
        let upload = try await store.createUpload(PutRequest(key))
        do throws(ObjectStoreError) {
            let part = try await store.uploadPart(PartRequest(key, upload, number: 1), body: MemorySource(body))
            _ = try await store.completeUpload(key, upload, parts: [part], condition: condition)
        } catch {
            if error.isOfUntoldVersion { return }
            try? await store.abortUpload(key, upload)
            throw error
        }
    }
}
