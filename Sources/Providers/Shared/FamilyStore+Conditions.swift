import Basics
import HTTP
import ObjectStorage
import Synchronization

/// How a header spells an ETag.
enum ETagSpelling: Sendable, Hashable {
    /// As RFC 9110 section 8.8.3 has it.
    case quoted
    /// Ceph RGW 16.2 compares the header of a PUT with the ETag as it keeps it.
    case bare

    var other: ETagSpelling { self == .quoted ? .bare : .quoted }

    func text(of etag: ETag) -> String { self == .quoted ? "\"\(etag.text)\"" : etag.text }
}

/// A condition of a write, and how it is sent.
struct AskedCondition: Sendable, Hashable {
    let condition: WriteCondition
    let spelling: ETagSpelling

    init(_ condition: WriteCondition, _ spelling: ETagSpelling = .quoted) {
        (self.condition, self.spelling) = (condition, spelling)
    }
}

/// How the server has treated requests of this process.
struct Conduct: Sendable, Hashable {
    var spelling = ETagSpelling.quoted
    /// Whether the ETags in its answers to writes of a kind are those of the objects; nil before the first was compared.
    var tellsETag: [ObjectStoreError.Operation: Bool] = [:]
    /// A key that ends in a slash was seen to be another object than the key without it.
    var keepsMarkers = false
    /// A key with a line break was seen to be stored.
    var keepsLineBreaks = false
    /// The last write was refused to these credentials: the next body is sent only after a 100 Continue.
    var refusesWrites = false
    /// Copies are refused: of every object, or of the objects of directories.
    var refusesCopies = false
    var refusesMarkerCopies = false
    /// Whether an ETag of 32 hexadecimal digits in answers to writes of a kind was the MD5 of the sent bytes; nil before the
    /// first.
    var tellsMD5: [ObjectStoreError.Operation: Bool] = [:]
}

/// Conditions of writes. A refusal is accepted when a HEAD shows that the condition does not hold. Otherwise the ETag is spelled
/// the other way, and at last a HEAD right before the write replaces the condition. The spelling that works is kept for the
/// server.
extension FamilyStore {
    /// An ETag that no object has.
    private static let noETag = ETag("00000000000000000000000000000000")

    /// Writes with `condition`.
    func conditionally(
        on condition: WriteCondition?, _ operation: ObjectStoreError.Operation, _ key: ObjectKey,
        _ write: (AskedCondition?) async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard let condition else { return try await write(nil) }
        guard case .ifNoneMatch = profile.createOnly else { return try await write(AskedCondition(condition)) }
        // The caller may have read the capabilities before this was learnt.
        if isUnheeded(condition) { return try await afterLooking(condition, operation, key, write) }
        let spelling = learned.withLock { $0.conduct.spelling }
        do { return try await write(AskedCondition(condition, spelling)) } catch {
            switch error.kind {
            case .notSupported where error.status != nil:
                // Backblaze B2 answers NotImplemented.
                let answer = try await afterLooking(condition, operation, key, write)
                // The condition was refused, and nothing else of the request.
                learned.withLock { learned in
                    learned.capabilities.putIfAbsent = false
                    learned.capabilities.putIfMatch = false
                    learned.capabilities.copyCondition = false
                    learned.capabilities.completionCondition = false
                }
                return answer
            case .preconditionFailed where error.status != nil:
                guard try await isAsMeant(condition, key) else { throw error }
                return try await overcome(error, AskedCondition(condition, spelling), operation, key, write)
            default: throw error
            }
        }
    }

    /// Retries after a refusal of a condition that holds by a HEAD.
    private func overcome(
        _ refusal: ObjectStoreError, _ asked: AskedCondition, _ operation: ObjectStoreError.Operation,
        _ key: ObjectKey, _ write: (AskedCondition?) async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer {
        switch asked.condition {
        case .absent:
            // Another host may have removed the object between the refusal and the HEAD.
            if let answer = try await unlessRefused(asked, write) { return answer }
        case .match:
            let spelling = asked.spelling.other
            // The wrong ETag is tried first. A server that accepts it does not check conditions in this spelling; the HEAD has
            // replaced the check.
            if let answer = try await unlessRefused(AskedCondition(.match(Self.noETag), spelling), write) {
                learn(unheeded: asked.condition)
                return answer
            }
            if let answer = try await unlessRefused(AskedCondition(asked.condition, spelling), write) {
                learned.withLock { $0.conduct.spelling = spelling }
                if spelling == .bare { note(.ifMatchUnquoted) }
                return answer
            }
        }
        // Throws when another host has written meanwhile.
        let answer: PutAnswer
        do { answer = try await afterLooking(asked.condition, operation, key, write) } catch {
            throw error.kind == .preconditionFailed || error.kind == .notFound ? refusal : error
        }
        learn(unheeded: asked.condition)
        return answer
    }

    /// nil when the server refuses the write.
    private func unlessRefused(
        _ asked: AskedCondition, _ write: (AskedCondition?) async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer? {
        do { return try await write(asked) } catch {
            switch error.kind {
            case .preconditionFailed, .notFound, .invalidRequest, .notSupported: return nil
            default: throw error
            }
        }
    }

    private func afterLooking(
        _ condition: WriteCondition, _ operation: ObjectStoreError.Operation, _ key: ObjectKey,
        _ write: (AskedCondition?) async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await look(for: condition, operation, key)
        return try await write(nil)
    }

    /// A HEAD in place of `condition`: throws the error of a store that checks the condition.
    func look(
        for condition: WriteCondition, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) async throws(ObjectStoreError) {
        let found = try await version(at: key)?.etag
        switch (condition, found) {
        case (.absent, nil): return
        case (.match(let wanted), let etag?) where wanted == etag: return
        default:
            throw ObjectStoreError(
                found == nil ? .notFound : .preconditionFailed, operation, key: key, code: "PreconditionFailed",
                message: found == nil ? "the object was deleted" : "the object was replaced")
        }
    }

    /// Whether `condition` holds. A HEAD that the server refuses does not contradict its refusal of the write.
    private func isAsMeant(_ condition: WriteCondition, _ key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        do { try await look(for: condition, .head, key) } catch {
            if error.isRetryable { throw error }
            return false
        }
        return true
    }

    /// nil: no such object.
    private func version(at key: ObjectKey) async throws(ObjectStoreError) -> ObjectVersion? {
        do { return try await head(key, condition: nil).version } catch {
            guard error.kind == .notFound else { throw error }
            return nil
        }
    }

    // MARK: What was learned

    private func isUnheeded(_ condition: WriteCondition) -> Bool {
        let quirks = learned.withLock { $0.capabilities.quirks }
        return quirks.contains(condition == .absent ? .ifNoneMatchUnheeded : .ifMatchUnheeded)
    }

    private func learn(unheeded condition: WriteCondition) {
        learned.withLock { learned in
            if condition == .absent {
                learned.capabilities.putIfAbsent = false
            } else {
                learned.capabilities.putIfMatch = false
            }
            learned.capabilities.completionCondition = false
        }
        note(condition == .absent ? .ifNoneMatchUnheeded : .ifMatchUnheeded)
    }

    /// Records a departure for as long as the store lives.
    func note(_ quirk: StoreQuirk) {
        let isNew = learned.withLock { $0.capabilities.quirks.insert(quirk).inserted }
        if isNew { settings.onQuirk?(quirk) }
    }
}
