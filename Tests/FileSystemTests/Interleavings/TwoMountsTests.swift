import Basics
import FileSystem
import Foundation
import Metadata
import ObjectStorage
import TestSupport
import Testing

private let isLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil

/// Two mounts of one bucket, whose tasks a seed interleaves.
@Suite(.seedThreads, .timeLimit(.minutes(isLong ? 60 : 4))) struct TwoMountsTests {
    /// What came to the store, and from which mount. Used on the one thread of the scheduler.
    private final class Log: @unchecked Sendable {
        /// Which mount has written the object at a key.
        var writers: [ObjectKey: Int] = [:]
        /// The writer of the object because of which a mount's last write was refused, as the mount has seen it last.
        var refusals: [ObjectKey: [Int: Int?]] = [:]
        private(set) var conflicts = 0
        private(set) var ownConflicts: [String] = []
        private(set) var lines: [String] = []

        func add(_ line: String) { lines.append(line) }

        func noteConflict(_ key: ObjectKey, of mount: Int) {
            conflicts += 1
            let name = key.description.components(separatedBy: ".conflict-")[0]
            if refusals[ObjectKey(name)]?[mount] == .some(mount) { ownConflicts.append("mount \(mount): \(key)") }
        }
    }

    private struct Observer: Interceptor {
        let mount: Int
        let log: Log

        func intercept<Answer: Sendable>(
            _ context: RequestContext, settle: Settlement<Answer>?,
            _ attempt: () async throws(ObjectStoreError) -> Answer
        ) async throws(ObjectStoreError) -> Answer {
            let answer: Result<Answer, ObjectStoreError>
            do throws(ObjectStoreError) { answer = .success(try await attempt()) } catch { answer = .failure(error) }
            // After a refusal the mount asks whose the object is.
            if context.operation == .head, let key = context.key, log.refusals[key]?[mount] != nil {
                log.refusals[key]?[mount] = log.writers[key]
            }
            if context.operation == .put, let key = context.key {
                switch answer {
                case .success:
                    log.writers[key] = mount
                    log.add("mount \(mount) puts \(key)")
                    if key.description.contains(".conflict-") { log.noteConflict(key, of: mount) }
                case .failure(let error):
                    log.refusals[key, default: [:]][mount] = log.writers[key]
                    log.add("mount \(mount) puts \(key): \(error.kind)")
                }
            }
            return try answer.get()
        }
    }

    /// A mount, for tasks that run on the one thread of the scheduler.
    private final class Mount: @unchecked Sendable {
        let tree: MountedTree

        init(_ tree: MountedTree) { self.tree = tree }

        func shutDown() async -> [UnstoredFile] { await tree.system.shutDown() }
    }

    /// A mount's own earlier write is no other host's, wherever the answers to both are.
    @Test(.rule("conflict.keep"), arguments: [MountPolicy.Durability.remote, .local])
    func noMountIsInConflictWithItself(durability: MountPolicy.Durability) throws {
        var conflicts = 0
        let only = ProcessInfo.processInfo.environment["PAILFS_TEST_SEED"].flatMap(UInt64.init)
        for seed in only.map({ $0...$0 }) ?? 1...UInt64(isLong ? 5000 : 30) {
            let scheduler = SeededScheduler(seed: seed)
            defer { scheduler.end() }
            let store = MemoryStore(time: scheduler.time)
            let log = Log()
            let mounts = try (0..<2).map { number in
                Mount(
                    try MountedTree(
                        over: InterceptedStore(InterceptedStore(store, Observer(mount: number, log: log)), Pauses()),
                        durability: durability,
                        pool: scheduler.pool, time: scheduler.time))
            }
            let (clock, locks) = (Program.Clock(), [KernelLocks(), KernelLocks()])
            var generator = SeededGenerator(seed: seed)
            var lastByte: UInt8 = 0
            let programs = (0..<4).map { number in
                let mount = number % 2
                let calls: [Call] = (0..<3).map { _ in
                    lastByte += 1
                    let name = ["a", "b"][Int.random(in: 0..<2, using: &generator)]
                    return .use(
                        directory: nil, name: name, creating: true, truncating: Bool.random(using: &generator),
                        [.write([lastByte], at: nil)])
                }
                return (Program(on: mounts[mount].tree, locks[mount], clock), calls, mount)
            }
            let ending = scheduler.run {
                await withTaskGroup { group in
                    for (program, calls, _) in programs { group.addTask { await program.run(calls) } }
                }
                for mount in mounts { _ = await mount.shutDown() }
            }.ending
            conflicts += log.conflicts
            let history = History(programs: programs.map(\.0.events))
            let told =
                "seed \(seed), durable=\(durability)\n\(log.lines.joined(separator: "\n"))\n\(history)"
            try #require(ending == .done, "\(ending): \(told)")
            try #require(log.ownConflicts == [], "\(told)")
        }
        #expect(conflicts > 0, "no seed has shown a conflict")
    }
}
