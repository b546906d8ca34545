import Basics
import Commits
import ObjectStorage
import Staging
import Synchronization
import TestSupport
import Testing

private let part = 64 << 10

@Suite("Random scripts")
struct ScriptTests {
    /// Which requests fail, by dice.
    private final class Dice: Sendable {
        private let generator: Mutex<SeededGenerator>
        let isOn = Mutex(true)

        init(seed: UInt64) { generator = Mutex(SeededGenerator(seed: seed)) }

        func fault(_ operation: ObjectStoreError.Operation, isReply: Bool) -> ObjectStoreError? {
            guard isOn.withLock({ $0 }), operation != .abortUpload else { return nil }
            // A lost answer to the creation leaves an upload that nobody knows of.
            if isReply, operation == .createUpload { return nil }
            return generator.withLock { generator in
                guard Int.random(in: 0..<12, using: &generator) == 0 else { return nil }
                let kinds: [ObjectStoreError.Kind] = [.interrupted, .timedOut, .unreachable, .throttled, .serverFault]
                return Rig.error(kinds.randomElement(using: &generator) ?? .interrupted, operation)
            }
        }
    }

    @Test("of writes, truncations, zeroings and commits under faults end in the bytes written", arguments: 0..<120)
    func scripts(seed: UInt64) async throws {
        var dice = SeededGenerator(seed: seed)
        let capabilities = Rig.capabilities { capabilities in
            capabilities.partCopy = Bool.random(using: &dice)
            capabilities.equalParts = Int.random(in: 0..<4, using: &dice) == 0
            capabilities.putIfMatch = Int.random(in: 0..<3, using: &dice) > 0
            capabilities.putIfAbsent = capabilities.putIfMatch
            if Bool.random(using: &dice) { capabilities.metadataUpdate = .none }
            capabilities.headersAtCompletion = Int.random(in: 0..<3, using: &dice) == 0
            if Bool.random(using: &dice) { capabilities.largestCopy = Int64(2 * part) }
            if Int.random(in: 0..<4, using: &dice) == 0 { capabilities.smallestPart = Int64(part) }
            capabilities.partGaps = Int.random(in: 0..<4, using: &dice) > 0
            capabilities.completionCondition = Bool.random(using: &dice)
            capabilities.surplusParts = Bool.random(using: &dice)
        }
        let store = MemoryStore(capabilities: capabilities)
        let hasBase = Bool.random(using: &dice)
        var truth = hasBase ? Rig.bytes(Int.random(in: 0...8 * part, using: &dice), seed: seed) : []
        let rig = try Rig(store, base: hasBase ? "file" : nil, content: truth)
        let faults = Dice(seed: seed)
        store.fault = { operation, _ in faults.fault(operation, isReply: false) }
        store.faultAfter = { operation, _ in faults.fault(operation, isReply: true) }
        var known = store.info("file")?.version.etag
        var position = 0

        for step in 0..<Int.random(in: 1...40, using: &dice) {
            switch Int.random(in: 0..<12, using: &dice) {
            case 0...6:
                if Int.random(in: 0..<5, using: &dice) == 0 { position = Int.random(in: 0...8 * part, using: &dice) }
                let bytes = Rig.bytes(Int.random(in: 1...part, using: &dice), seed: seed &* 100 &+ UInt64(step))
                try rig.write(bytes, at: position)
                let end = position + bytes.count
                if truth.count < end { truth += [UInt8](repeating: 0, count: end - truth.count) }
                truth.replaceSubrange(position..<end, with: bytes)
                position = end
            case 7:
                let size = Int.random(in: 0...8 * part, using: &dice)
                try rig.truncate(to: size)
                truth = Array(truth.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - truth.count))
            case 8:
                let start = Int.random(in: 0...8 * part, using: &dice)
                let end = start + Int.random(in: 0...part, using: &dice)
                try rig.staged.zero(Int64(start)..<Int64(end))
                rig.commit.noteTruncate()
                for index in start..<max(start, min(end, truth.count)) { truth[index] = 0 }
            case 9: rig.metadata.user["mtime"] = String(Int.random(in: 0..<5000, using: &dice))
            case 10: try await Task.sleep(for: .milliseconds(1))
            default:
                if let version = try? await rig.land(if: known.map { .match($0) } ?? .absent) {
                    known = version.etag
                    #expect(store.content("file") == truth, "seed \(seed), step \(step)")
                }
            }
        }
        faults.isOn.withLock { $0 = false }
        // Faults of before may have left a doubt, which the last commit settles.
        let version = try await rig.land(if: known.map { .match($0) } ?? .absent)
        #expect(store.content("file") == truth, "seed \(seed)")
        let info = try #require(store.info("file"))
        #expect(info.version.etag == version.etag)
        let options = CommitOptions()
        let drift = (Double(rig.metadata.user["mtime"] ?? "") ?? 0) - (Double(info.metadata.user["mtime"] ?? "") ?? 0)
        let most = capabilities.headersAtCompletion ? 0 : options.mtimeDrift
        #expect((0...most).contains(drift), "seed \(seed)")
        #expect(store.uploadsInProgress.isEmpty, "seed \(seed)")
        #expect(rig.uploads.used == 0)
    }
}
