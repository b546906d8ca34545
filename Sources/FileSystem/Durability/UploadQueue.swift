import Basics
import ObjectStorage
import Synchronization

/// Acknowledged files that are not in the bucket yet, the oldest first, and the few tasks that upload them. A failed upload is
/// retried, ever more seldom, as long as the mount lives.
///
/// Files that are closed one soon after the other, as `tar` and `git` make them, wait until no other is added for a moment: the
/// program has the machine to itself meanwhile, and a file that is changed or removed again soon costs no request. They are
/// acknowledged whether they wait or not. A leaf lock; work runs outside it.
final class UploadQueue: Sendable {
    /// Uploads a file.
    typealias Send = @Sendable (ActiveFile) async -> Ending

    private struct State {
        /// In their order from `first` on; the places before it are empty. Files before `due` may be uploaded now.
        var waiting: [(file: ActiveFile, send: Send)?] = []
        var first = 0
        var due = 0
        var isWaiting: Set<ObjectIdentifier> = []
        /// Files being uploaded, each by one task, which an interruption stops. True for a file that was acknowledged again
        /// since.
        var underWay: [ObjectIdentifier: Bool] = [:]
        var running = 0
        var isStopped = false
        var delays: [ObjectIdentifier: Duration] = [:]
        var inARow = 0
        var lastAdded: Duration?
        /// Since when the first file that is not due waits.
        var heldSince: Duration?
        /// Whether a task makes them due in time.
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
        /// The store does not take the file, and may never do.
        case refused
    }

    /// Files that are uploaded at the same time.
    private static let width = 32
    private static let delays = (first: Duration.seconds(1), longest: Duration.seconds(60))
    /// The longest pause after a refusal: each try sends the bytes in vain.
    private static let longestAfterRefusal = Duration.seconds(600)
    /// How many files are uploaded at once before one waits for others.
    private static let mostAlone = 2
    /// When no other file is added for so long, the waiting ones are uploaded. Files further apart are not in a row.
    private static let idle = Duration.milliseconds(250)
    /// The longest time that the first one waits.
    private static let patience = Duration.seconds(5)

    private let pool: WorkerPool
    private let time: any TimeSource
    private let atRest: @Sendable () -> Void
    private let state = Mutex(State())

    /// `atRest` runs each time that the last running upload has ended.
    init(pool: WorkerPool, time: any TimeSource, atRest: @escaping @Sendable () -> Void) {
        (self.pool, self.time, self.atRest) = (pool, time, atRest)
    }

    /// Adds a file that was just acknowledged, unless it waits already. With `isUrgent` no file waits for others any more.
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

    /// Makes all waiting files due: their local space is needed.
    func hurry() {
        guard state.withLock({ $0.heldSince != nil }) else { return }
        state.withLock { $0.release() }
        startWork()
    }

    /// Begins no more uploads.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            (state.waiting, state.first, state.due, state.isWaiting, state.heldSince) = ([], 0, 0, [], nil)
        }
    }

    /// Adds a file once more after `send` has not stored it.
    private func addAgain(_ file: ActiveFile, _ send: @escaping Send) {
        state.withLock { state in
            // A file that is being uploaded again already comes here by itself if it has to.
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
