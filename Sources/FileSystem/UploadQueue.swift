import Basics
import Synchronization

/// Files whose bytes were promised and that are not in the bucket yet, the oldest first, and the few tasks that bring them
/// there. What fails is tried again, ever more seldom, as long as the mount lives. A leaf lock; work runs outside it.
final class UploadQueue: Sendable {
    private struct State {
        /// In their order from `first` on; before it are places that are empty by now.
        var waiting: [ActiveFile?] = []
        var first = 0
        var isWaiting: Set<ObjectIdentifier> = []
        var running = 0
        var isStopped = false
        var delays: [ObjectIdentifier: Duration] = [:]
    }

    /// What became of one try.
    enum Ending: Sendable { case done, interrupted, failed }

    /// Files on their way at the same time.
    private static let width = 32
    private static let delays = (first: Duration.seconds(1), longest: Duration.seconds(60))

    private let pool: WorkerPool
    private let time: any TimeSource
    private let atRest: @Sendable () -> Void
    private let state = Mutex(State())

    /// `atRest` runs each time that the last file on its way has come to its end.
    init(pool: WorkerPool, time: any TimeSource, atRest: @escaping @Sendable () -> Void) {
        (self.pool, self.time, self.atRest) = (pool, time, atRest)
    }

    /// Adds a file unless it waits already. `send` is asked to bring it to the store.
    func add(_ file: ActiveFile, _ send: @escaping @Sendable (ActiveFile) async -> Ending) {
        let starts = state.withLock { state in
            guard !state.isStopped, state.isWaiting.insert(ObjectIdentifier(file)).inserted else { return false }
            state.waiting.append(file)
            guard state.running < Self.width else { return false }
            state.running += 1
            return true
        }
        if starts { pool.start { [self] in await work(send) } }
    }

    /// Nothing is begun any more.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            (state.waiting, state.first, state.isWaiting) = ([], 0, [])
        }
    }

    private func work(_ send: @escaping @Sendable (ActiveFile) async -> Ending) async {
        while let file = next() {
            switch await send(file) {
            case .done: state.withLock { $0.delays[ObjectIdentifier(file)] = nil }
            case .interrupted: add(file, send)
            case .failed:
                let delay = state.withLock { state in
                    let delay = state.delays[ObjectIdentifier(file)] ?? Self.delays.first
                    state.delays[ObjectIdentifier(file)] = min(delay * 2, Self.delays.longest)
                    return delay
                }
                pool.start { [self] in
                    do { try await time.sleep(for: delay) } catch { return }
                    add(file, send)
                }
            }
        }
        if state.withLock({ $0.running == 0 }) { atRest() }
    }

    private func next() -> ActiveFile? {
        state.withLock { state in
            guard state.first < state.waiting.count, let file = state.waiting[state.first] else {
                state.running -= 1
                return nil
            }
            state.waiting[state.first] = nil
            state.first += 1
            state.isWaiting.remove(ObjectIdentifier(file))
            if state.first > 64, state.first > state.waiting.count / 2 {
                state.waiting.removeFirst(state.first)
                state.first = 0
            }
            return file
        }
    }
}
