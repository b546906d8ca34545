import Basics
import Journaling
import ObjectStorage

/// Many removals at once.
extension JobRunner {
    /// A listing with fewer of the wanted keys on a page is worse than a request for each.
    private static let fewestFound = 8

    /// The most removals in one request.
    var removalBatch: Int { max(1, store.capabilities.deleteBatch) }

    /// What became of a removal.
    enum RemovalOutcome: Sendable, Hashable {
        case done
        /// Another host's object is there now, and stays.
        case left
        /// The store does not let it, for this reason. The row stays.
        case refused(String)
    }

    /// Carries the removals out and ends their rows.
    ///
    /// The object at a key may be another host's by now. One listing shows that for many keys; where it shows another object, or
    /// none, a request asks for the object itself.
    func finish(removals: [(id: IntentID, record: RemovalRecord)]) async -> [IntentID: RemovalOutcome] {
        let unchanged: [ObjectKey]
        do throws(ObjectStoreError) { unchanged = try await unchangedObjects(of: removals.map(\.record)) } catch {
            return Dictionary(removals.map { ($0.id, .refused("\(error)")) }) { first, _ in first }
        }
        let together = Set(unchanged)
        let others = removals.map(\.record).filter { !together.contains(ObjectKey($0.key)) }
        let found = await deleteTogether(unchanged).merging(removeSingly(others)) { first, _ in first }
        var outcomes: [IntentID: RemovalOutcome] = [:]
        var ended: [JournalChange] = []
        for (id, record) in removals {
            let outcome = found[ObjectKey(record.key)] ?? .done
            outcomes[id] = outcome
            if case .refused = outcome { continue }
            ended.append(.endJob(id))
        }
        // Flushed, since a new object at one of the keys may be just like the old one.
        do { try journal.write(ended, flushed: true) } catch {
            for (id, outcome) in outcomes where outcome == .done || outcome == .left {
                outcomes[id] = .refused("\(error)")
            }
        }
        return outcomes
    }

    /// Keys at which a listing still shows what is to be removed.
    private func unchangedObjects(of records: [RemovalRecord]) async throws(ObjectStoreError) -> [ObjectKey] {
        guard records.count > 1 else { return [] }
        guard store.capabilities.bucketsInKeys else { return try await listed(records) }
        // A listing ends with its bucket.
        var found: [ObjectKey] = []
        for bucket in Dictionary(grouping: records, by: { $0.key.bytes.prefix { $0 != UInt8(ascii: "/") } }).values {
            found += try await listed(bucket)
        }
        return found
    }

    private func listed(_ records: [RemovalRecord]) async throws(ObjectStoreError) -> [ObjectKey] {
        var rest = records.sorted { $0.key < $1.key }[...]
        let prefix = commonDirectory(rest.first?.key ?? "", rest.last?.key ?? "")
        var found: [ObjectKey] = []
        while let first = rest.first {
            let bound = ListRequest.bound(before: first.key, longest: store.capabilities.longestKey)
            let page = try await store.list(ListRequest(prefix: prefix, startAfter: bound.isEmpty ? nil : bound))
            let etags = Dictionary(page.objects.map { ($0.key.bytes, $0.version.etag.text) }) { first, _ in first }
            let passed = page.next == nil ? rest : rest.prefix { $0.key <= page.objects.last?.key.bytes ?? "" }
            let unchanged = passed.filter { $0.etag != nil && etags[$0.key] == $0.etag }
            found += unchanged.map { ObjectKey($0.key) }
            rest = rest.dropFirst(passed.count)
            if unchanged.count < Self.fewestFound { break }
        }
        return found
    }

    /// Deletes objects many to a request. Returns the outcomes of those that are not done.
    private func deleteTogether(_ keys: [ObjectKey]) async -> [ObjectKey: RemovalOutcome] {
        var outcomes: [ObjectKey: RemovalOutcome] = [:]
        for start in stride(from: 0, to: keys.count, by: removalBatch) {
            let batch = Array(keys[start..<min(keys.count, start + removalBatch)])
            do throws(ObjectStoreError) {
                for error in try await store.deleteMany(batch) {
                    guard let key = error.key else { throw error }
                    outcomes[key] = .refused("\(error)")
                }
            } catch {
                // A store without that request may still remove one object after the other.
                if error.isRetryable || error.kind == .cancelled {
                    for key in batch { outcomes[key] = .refused("\(error)") }
                } else {
                    outcomes.merge(
                        await removeSingly(batch) { key throws(ObjectStoreError) in
                            try await store.delete(key, ifMatch: nil)
                            return true
                        }
                    ) { _, new in new }
                }
            }
        }
        return outcomes
    }

    private func removeSingly(_ records: [RemovalRecord]) async -> [ObjectKey: RemovalOutcome] {
        let byKey = Dictionary(records.map { (ObjectKey($0.key), $0) }) { first, _ in first }
        return await removeSingly(Array(byKey.keys)) { key throws(ObjectStoreError) in
            guard let record = byKey[key] else { return true }
            return try await remove(record)
        }
    }

    private func removeSingly(
        _ keys: [ObjectKey], _ remove: @escaping @Sendable (ObjectKey) async throws(ObjectStoreError) -> Bool
    ) async -> [ObjectKey: RemovalOutcome] {
        typealias Answer = (ObjectKey, RemovalOutcome)
        let answers = try? await concurrently(keys, width: Self.width) { key throws(ObjectStoreError) -> Answer in
            do throws(ObjectStoreError) {
                let isDone = try await remove(key)
                return (key, isDone ? .done : .left)
            } catch { return (key, .refused("\(error)")) }
        }
        return Dictionary(answers ?? []) { first, _ in first }.filter { $0.value != .done }
    }

    /// Removes one object. A HEAD looks at it first, unless the store itself compares.
    private func remove(_ record: RemovalRecord) async throws(ObjectStoreError) -> Bool {
        guard store.capabilities.deleteIfMatch, let etag = record.etag else { return try await remove(record, [:]) }
        do { try await store.delete(ObjectKey(record.key), ifMatch: ETag(etag)) } catch {
            switch error.kind {
            case .notFound, .keyRefused, .keyTooLong: return true
            case .preconditionFailed:
                leave(ObjectKey(record.key))
                return false
            default: throw error
            }
        }
        return true
    }

    /// The directory that two keys are in, however deep.
    private func commonDirectory(_ one: ByteString, _ other: ByteString) -> ByteString {
        let common = zip(one.bytes, other.bytes).prefix { $0 == $1 }.map(\.0)
        let end = common.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
        return ByteString(common.prefix(end))
    }
}
