import Basics
import FileSystem
import Foundation
import Metadata
import ObjectStorage
import TestSupport
import Testing

private let isLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil

/// Calls of several programs at once, their tasks interleaved as a seed chooses. A failure prints the seed and every step.
@Suite(.seedThreads, .timeLimit(.minutes(isLong ? 120 : 4))) struct InterleavingTests {
    private static func call(_ generator: inout SeededGenerator, _ lastByte: inout UInt8) -> Call {
        func name() -> String { ["a", "b", "c"][Int.random(in: 0..<3, using: &generator)] }
        func directory() -> String? { [nil, nil, "d", "e"][Int.random(in: 0..<4, using: &generator)] }
        func step() -> Step {
            lastByte += 1
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1: return .write([lastByte, lastByte], at: Int.random(in: 0...3, using: &generator))
            case 2: return .write([lastByte], at: nil)
            case 3: return .resize(Int.random(in: 0...4, using: &generator))
            default: return .read
            }
        }
        switch Int.random(in: 0..<16, using: &generator) {
        case 0..<6:
            let steps = (0..<Int.random(in: 0...2, using: &generator)).map { _ in step() }
            return .use(
                directory: directory(), name: name(), creating: Bool.random(using: &generator),
                truncating: Int.random(in: 0..<3, using: &generator) == 0, steps)
        case 6..<9: return .unlink(directory: directory(), name: name())
        case 9..<13: return .rename(directory: directory(), name: name(), to: directory(), name())
        case 13: return .makeDirectory(["d", "e"][Int.random(in: 0..<2, using: &generator)])
        case 14: return .removeDirectory(["d", "e"][Int.random(in: 0..<2, using: &generator)])
        default:
            return Bool.random(using: &generator)
                ? .rename(directory: nil, name: "d", to: nil, "e") : .rename(directory: nil, name: "e", to: nil, "d")
        }
    }

    /// A tree and what is to be done with it.
    private struct Plan {
        var setUp: [Call] = [.makeDirectory("d")]
        var programs: [[Call]] = []

        init(seed: UInt64) {
            var generator = SeededGenerator(seed: seed)
            var lastByte: UInt8 = 0
            for (directory, name) in [(nil, "a"), (nil, "b"), ("d", "a"), ("d", "c")] as [(String?, String)]
            where Bool.random(using: &generator) {
                lastByte += 1
                setUp.append(
                    .use(
                        directory: directory, name: name, creating: true, truncating: false,
                        [.write([lastByte, lastByte, lastByte], at: 0)]))
            }
            for _ in 0..<3 {
                programs.append(
                    (0..<Int.random(in: 1...3, using: &generator)).map { _ in call(&generator, &lastByte) })
            }
        }
    }

    /// What went wrong with a seed, or nil.
    private static func failure(
        _ seed: UInt64, _ durability: MountPolicy.Durability, killing: Bool = false
    ) throws -> String? {
        let plan = Plan(seed: seed)
        let scheduler = SeededScheduler(seed: seed)
        let store = MemoryStore(time: scheduler.time)
        let tree = try MountedTree(
            over: InterceptedStore(store, Pauses()), durability: durability, pool: scheduler.pool, time: scheduler.time)
        // Tasks that sleep keep files open.
        defer { scheduler.end() }
        let (clock, locks) = (Program.Clock(), KernelLocks())
        let first = Program(on: tree, locks, clock)
        guard scheduler.run({ await first.run(plan.setUp) }).ending == .done else { return "the tree was not made" }
        let programs = plan.programs.indices.map { number in
            Program(on: tree, locks, clock, killedAfter: killing ? (Int(seed) + number) % 3 : nil)
        }
        let ending = scheduler.run {
            await withTaskGroup { group in
                for (program, calls) in zip(programs, plan.programs) { group.addTask { await program.run(calls) } }
            }
        }.ending
        let history = History(programs: [first.events] + programs.map(\.events))
        let told = "seed \(seed), durable=\(durability): \(plan.programs)\n\(history)"
        guard ending == .done else { return "\(ending): \(told)" }
        let stale = programs.flatMap(\.stale)
        guard stale.isEmpty else { return "ESTALE to \(stale): \(told)" }
        let box = Box(tree)
        let seen = scheduler.run { await box.look() }.value
        let again = scheduler.run { await box.lookAfterRemount() }.value
        guard case .success(let now)? = seen, case .success(let later)? = again else {
            return "the tree cannot be read: \(String(describing: seen)) \(String(describing: again)): \(told)"
        }
        guard history.isExplained(from: SequentialTree(programs: 1 + programs.count), endingAs: now) else {
            return "no order of the steps ends as \(now): \(told)"
        }
        guard now == later else { return "\(now) is \(later) after a remount: \(told)" }
        return nil
    }

    /// The tree, for tasks that run on the one thread of the scheduler.
    private final class Box: @unchecked Sendable {
        private let tree: MountedTree

        init(_ tree: MountedTree) { self.tree = tree }

        func look() async -> Result<[String: ReferenceTree.Node], MountedTree.Failure> {
            await Result { () async throws(MountedTree.Failure) in
                Self.withoutModes(try await Model(tree: tree).seen())
            }
        }

        func lookAfterRemount() async -> Result<[String: ReferenceTree.Node], MountedTree.Failure> {
            do { try await tree.remount() } catch {
                return .failure(MountedTree.Failure(kind: .inputOutput, reason: "\(error)"))
            }
            return await look()
        }

        private static func withoutModes(_ entries: [String: ReferenceTree.Node]) -> [String: ReferenceTree.Node] {
            entries.mapValues { node in
                switch node {
                case .file(let bytes, _): .file(bytes, mode: 0)
                case .directory(let below): .directory(withoutModes(below))
                case .link: node
                }
            }
        }
    }

    @Test(.rule("visible.own"), arguments: [MountPolicy.Durability.remote, .local])
    func callsAtTheSameTimeEndAsIfOneFollowedTheOther(durability: MountPolicy.Durability) throws {
        try Self.expectNoFailure { seed in try Self.failure(seed, durability) }
    }

    /// pailfs goes on with a call whose program was killed, while the kernel lets the next call at the same names begin.
    @Test(.rule("visible.own"), arguments: [MountPolicy.Durability.remote, .local])
    func callsOfKilledProgramsEndAsIfOneFollowedTheOther(durability: MountPolicy.Durability) throws {
        try Self.expectNoFailure { seed in try Self.failure(seed, durability, killing: true) }
    }

    /// PAILFS_TEST_SEED=N tries that seed alone.
    private static func expectNoFailure(_ failure: (UInt64) throws -> String?) throws {
        let only = ProcessInfo.processInfo.environment["PAILFS_TEST_SEED"].flatMap(UInt64.init)
        for seed in only.map({ $0...$0 }) ?? 1...UInt64(isLong ? 10_000 : 50) {
            if let failure = try failure(seed) {
                Issue.record("\(failure)")
                return
            }
        }
    }

    /// The same seed has the same interleaving: a failure can be repeated.
    @Test func aSeedRepeatsItsInterleaving() throws {
        for seed in 1...UInt64(20) {
            let orders = [0, 1].map { _ in
                let scheduler = SeededScheduler(seed: seed)
                let order = Order()
                let ending = scheduler.run {
                    await withTaskGroup { group in
                        for number in 0..<4 {
                            group.addTask {
                                for _ in 0..<3 {
                                    await Task.yield()
                                    order.add(number)
                                }
                            }
                        }
                    }
                }.ending
                #expect(ending == .done)
                return order.all
            }
            #expect(orders[0] == orders[1])
        }
    }

    /// Filled by tasks on one thread.
    private final class Order: @unchecked Sendable {
        private(set) var all: [Int] = []

        func add(_ number: Int) { all.append(number) }
    }
}
