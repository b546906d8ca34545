import Basics
import ObjectStorage
import Synchronization

/// Acknowledged files that are not in the bucket yet, the oldest first, and the few tasks that bring them
/// there. What fails is tried again, ever more seldom, as long as the mount lives.
///
/// Files that are closed one soon after the other, as `tar` and `git` make them, wait until no other has come for a moment:
/// the program has the machine to itself meanwhile, and a file that is changed or removed again soon costs no request. They
/// are acknowledged whether they wait or not. A leaf lock; work runs outside it.
final class UploadQueue: Sendable {
    /// Asked to bring a file to the store.
    typealias Send = @Sendable (ActiveFile) async -> Ending

    private struct State {
        /// In their order from `first` on; before it are places that are empty by now. Those before `due` may go.
        var waiting: [(file: ActiveFile, send: Send)?] = []
        var first = 0
        var due = 0
        var isWaiting: Set<ObjectIdentifier> = []
        /// Those on their way, each once: whoever interrupts one means the only one. True for what was acknowledged since.
        var underWay: [ObjectIdentifier: Bool] = [:]
        var running = 0
        var isStopped = false
        var delays: [ObjectIdentifier: Duration] = [:]
        var inARow = 0
        var lastAdded: Duration?
        /// Since when the first of those that are not due waits.
        var heldSince: Duration?
        /// Somebody sees to it that they become due.
        var isTimed = false

        mutating func noteIfUnderWay(_ file: ActiveFile) -> Bool {
            guard underWay[ObjectIdentifier(file)] != nil else { return false }
            underWay[ObjectIdentifier(file)] = true
            return true
        }

        mutating func release() {
            due = waiting.count
            heldSince = nil
        }
    }

    /// What became of one try.
    enum Ending: Sendable {
        case done, interrupted, failed
        /// The store does not take it, and may never do.
        case refused
    }

    /// Files on their way at the same time.
    private static let width = 32
    private static let delays = (first: Duration.seconds(1), longest: Duration.seconds(60))
    /// Each try of what the store refuses sends the bytes in vain.
    private static let longestAfterRefusal = Duration.seconds(600)
    /// Files that go by themselves before one waits for others.
    private static let mostAlone = 2
    /// Without another one for so long they go; further apart they are not in a row.
    private static let idle = Duration.milliseconds(250)
    /// So long the first one waits at most.
    private static let patience = Duration.seconds(5)

    private let pool: WorkerPool
    private let time: any TimeSource
    private let atRest: @Sendable () -> Void
    private let state = Mutex(State())

    /// `atRest` runs each time that the last file on its way has come to its end.
    init(pool: WorkerPool, time: any TimeSource, atRest: @escaping @Sendable () -> Void) {
        (self.pool, self.time, self.atRest) = (pool, time, atRest)
    }

    /// Adds a file that was just acknowledged, unless it waits already. With `isUrgent` neither it nor another waits for others.
    func add(_ file: ActiveFile, isUrgent: Bool, _ send: @escaping Send) {
        let now = time.uptime()
        let isFirst = state.withLock { state in
            guard !state.isStopped else { return false }
            state.inARow = state.lastAdded.map { now - $0 < Self.idle } ?? false ? state.inARow + 1 : 1
            state.lastAdded = now
            guard !state.noteIfUnderWay(file) else {
                if isUrgent { state.release() }
                return false
            }
            guard state.isWaiting.insert(ObjectIdentifier(file)).inserted else { return false }
            state.waiting.append((file, send))
            guard state.inARow > Self.mostAlone, !isUrgent else {
                state.release()
                return false
            }
            if state.heldSince == nil { state.heldSince = now }
            defer { state.isTimed = true }
            return !state.isTimed
        }
        if isFirst { pool.start { [self] in await releaseInTime() } }
        startWork()
    }

    /// Nothing waits for others any more: what they take is needed.
    func hurry() {
        guard state.withLock({ $0.heldSince != nil }) else { return }
        state.withLock { $0.release() }
        startWork()
    }

    /// Nothing is begun any more.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            (state.waiting, state.first, state.due, state.isWaiting, state.heldSince) = ([], 0, 0, [], nil)
        }
    }

    /// Once more, after `send` did not bring it there.
    private func addAgain(_ file: ActiveFile, _ send: @escaping Send) {
        state.withLock { state in
            // What is on its way once more already comes here again if it has to.
            guard !state.isStopped, state.underWay[ObjectIdentifier(file)] == nil,
                state.isWaiting.insert(ObjectIdentifier(file)).inserted
            else { return }
            state.waiting.append((file, send))
            if state.heldSince == nil { state.release() }
        }
        startWork()
    }

    private func releaseInTime() async {
        while true {
            let rest = state.withLock { state -> Duration? in
                guard let since = state.heldSince, let last = state.lastAdded else {
                    state.isTimed = false
                    return nil
                }
                let rest = min(last + Self.idle, since + Self.patience) - time.uptime()
                if rest <= .zero {
                    state.release()
                    state.isTimed = false
                }
                return rest
            }
            guard let rest, rest > .zero else { break }
            do { try await time.sleep(for: rest) } catch { return }
        }
        startWork()
    }

    /// As many tasks as there is work for.
    private func startWork() {
        let starts = state.withLock { state in
            let count = max(0, min(state.due - state.first, Self.width - state.running))
            state.running += count
            return count
        }
        for _ in 0..<starts { pool.start { [self] in await work() } }
    }

    private func work() async {
        while let (file, send) = next() {
            let ending = await CallDeadline.run { await send(file) }
            let isAcknowledgedAgain = state.withLock {
                $0.underWay.removeValue(forKey: ObjectIdentifier(file)) ?? false
            }
            switch ending {
            case .done:
                state.withLock { $0.delays[ObjectIdentifier(file)] = nil }
                if isAcknowledgedAgain { addAgain(file, send) }
            case .interrupted: addAgain(file, send)
            case .failed where isAcknowledgedAgain, .refused where isAcknowledgedAgain: addAgain(file, send)
            case .failed, .refused:
                let longest = ending == .refused ? Self.longestAfterRefusal : Self.delays.longest
                let delay = state.withLock { state in
                    let delay = min(state.delays[ObjectIdentifier(file)] ?? Self.delays.first, longest)
                    state.delays[ObjectIdentifier(file)] = delay * 2
                    return delay
                }
                pool.start { [self] in
                    do { try await time.sleep(for: delay) } catch { return }
                    addAgain(file, send)
                }
            }
        }
        if state.withLock({ $0.running == 0 }) { atRest() }
    }

    private func next() -> (file: ActiveFile, send: Send)? {
        state.withLock { state in
            guard state.first < state.due, let next = state.waiting[state.first] else {
                state.running -= 1
                return nil
            }
            state.waiting[state.first] = nil
            state.first += 1
            state.isWaiting.remove(ObjectIdentifier(next.file))
            state.underWay[ObjectIdentifier(next.file)] = false
            if state.first > 64, state.first > state.waiting.count / 2 {
                state.waiting.removeFirst(state.first)
                state.due -= state.first
                state.first = 0
            }
            return next
        }
    }
}
