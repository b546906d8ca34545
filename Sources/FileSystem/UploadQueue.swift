import Basics
import Synchronization

/// Files whose bytes were promised and that are not in the bucket yet, the oldest first, and the few tasks that bring them
/// there. What fails is tried again, ever more seldom, as long as the mount lives. A leaf lock; work runs outside it.
final class UploadQueue: Sendable {
    private struct State {
        var waiting: [ActiveFile] = []
        var running = 0
        var isStopped = false
        var delays: [ObjectIdentifier: Duration] = [:]
    }

    /// What became of one try.
    enum Ending: Sendable { case done, interrupted, failed }

    /// Files on their way at the same time.
    private static let width = 6
    private static let delays = (first: Duration.seconds(1), longest: Duration.seconds(60))

    private let pool: WorkerPool
    private let time: any TimeSource
    private let state = Mutex(State())

    init(pool: WorkerPool, time: any TimeSource) { (self.pool, self.time) = (pool, time) }

    /// Adds a file unless it waits already. `send` is asked to bring it to the store.
    func add(_ file: ActiveFile, _ send: @escaping @Sendable (ActiveFile) async -> Ending) {
        let starts = state.withLock { state in
            guard !state.isStopped, !state.waiting.contains(where: { $0 === file }) else { return false }
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
            state.waiting = []
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
    }

    private func next() -> ActiveFile? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.running -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}
