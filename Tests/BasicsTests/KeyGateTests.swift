import Basics
import Synchronization
import TestSupport
import Testing

@Suite("A gate over keys", .timeLimit(.minutes(2)), .ownThreads) struct KeyGateTests {
    private let gate = KeyGate()

    /// A task that enters, tells so, and stays until it is let go.
    private final class Visit: Sendable {
        let isInside = Mutex(false)
        private let leaving = TaskGate()
        private let task = Mutex<Task<Bool, Never>?>(nil)

        init(_ gate: KeyGate, _ places: [ByteString], alone: Bool = false) {
            _ = leaving.tryEnter(alone: true)
            let task = Task(executorPreference: OwnThreads.pool) { [self] () async -> Bool in
                do {
                    let pass = alone ? try await gate.enter(alone: places) : try await gate.enter(places)
                    isInside.withLock { $0 = true }
                    await leaving.enterRegardless()
                    gate.leave(pass)
                    return true
                } catch { return false }
            }
            self.task.withLock { $0 = task }
        }

        func end() async -> Bool {
            leaving.leave(alone: true)
            return await task.withLock { $0 }?.value ?? false
        }

        func cancel() { task.withLock { $0 }?.cancel() }

        /// Waits long for what is to happen, on however busy a machine, and some turns for what is not.
        func enters(_ isExpected: Bool = true) async -> Bool {
            for _ in 0..<(isExpected ? 20_000 : 2000) {
                if isInside.withLock({ $0 }) { return true }
                if isExpected { try? await Task.sleep(for: .milliseconds(1)) } else { await Task.yield() }
            }
            return false
        }
    }

    @Test("lets who is alone below a prefix wait for those there, and no others")
    func prefixes() async throws {
        let below = Visit(gate, ["d/x"])
        let elsewhere = Visit(gate, ["dx"])
        #expect(await below.enters())
        #expect(await elsewhere.enters())
        let alone = Visit(gate, ["d/", "e/"], alone: true)
        #expect(await !alone.enters(false))
        #expect(gate.tryEnter() == nil, "who tells no key could be anywhere")
        #expect(await below.end())
        #expect(await alone.enters())
        for (key, isLet) in [("d/y", false), ("e/", false), ("e", true), ("d", true), ("c/d/y", true)] {
            let other = Visit(gate, ["z", ByteString(key)])
            #expect(await other.enters(isLet) == isLet, "\(key)")
            if !isLet { other.cancel() }
            #expect(await other.end() == isLet, "\(key)")
        }
        #expect(await alone.end())
        #expect(await elsewhere.end())
        let pass = try #require(gate.tryEnter())
        gate.leave(pass)
    }

    @Test("lets nobody overtake whom he would have to wait for")
    func order() async {
        let first = Visit(gate, ["d/x"])
        #expect(await first.enters())
        let alone = Visit(gate, ["d/"], alone: true)
        #expect(await !alone.enters(false))
        let later = Visit(gate, ["d/y"])
        #expect(await !later.enters(false))
        let other = Visit(gate, ["f/"], alone: true)
        #expect(await other.enters())
        // Who gives up lets those behind him in.
        alone.cancel()
        #expect(await !alone.end())
        #expect(await later.enters())
        for visit in [first, later, other] { #expect(await visit.end()) }
    }

    /// Who is inside.
    private final class Book: Sendable {
        private struct State {
            var inside: [(place: ByteString, alone: Bool)] = []
            var clashes = 0
        }
        private let state = Mutex(State())

        var clashes: Int { state.withLock { $0.clashes } }

        func note(_ place: ByteString, _ alone: Bool) {
            state.withLock { state in
                let clashes = state.inside.contains { other in
                    (alone && other.place.hasPrefix(place)) || (other.alone && place.hasPrefix(other.place))
                }
                if clashes { state.clashes += 1 }
                state.inside.append((place, alone))
            }
        }

        func strike(_ place: ByteString, _ alone: Bool) {
            state.withLock { state in
                guard let index = state.inside.firstIndex(where: { $0 == (place, alone) }) else { return }
                state.inside.remove(at: index)
            }
        }
    }

    @Test("never lets in two who exclude each other, and everybody in the end", arguments: 0..<10)
    func model(seed: UInt64) async {
        let book = Book()
        await withTaskGroup(of: Void.self) { group in
            var dice = SeededGenerator(seed: seed)
            for _ in 0..<60 {
                let alone = Int.random(in: 0..<4, using: &dice) == 0
                let depth = Int.random(in: 0..<3, using: &dice)
                let place = (0...depth).map { _ in ["a/", "b/"].randomElement(using: &dice) ?? "" }.joined()
                let places = [ByteString(alone ? place : place + "f")]
                let isImpatient = Int.random(in: 0..<6, using: &dice) == 0
                let task = Task(executorPreference: OwnThreads.pool) { [gate, book] in
                    guard let pass = alone ? try? await gate.enter(alone: places) : try? await gate.enter(places)
                    else { return }
                    book.note(places[0], alone)
                    for _ in 0..<20 { await Task.yield() }
                    book.strike(places[0], alone)
                    gate.leave(pass)
                }
                if isImpatient { task.cancel() }
                group.addTask { await task.value }
            }
        }
        #expect(book.clashes == 0, "seed \(seed)")
        #expect(gate.tryEnter() != nil, "nobody is left inside")
    }
}
