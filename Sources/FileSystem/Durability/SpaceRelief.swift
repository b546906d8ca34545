import Basics
import Commits
import Metadata
import Staging
import Synchronization

/// Decides which calls wait for local space, and which files are committed to make some.
///
/// Writers are held back in three steps. From three quarters of their share on, each write is slowed down a little. When the
/// share is full, they wait in line, without a thread and without a gate, while files that are still open are committed. When
/// nothing reaches the store for the mount's `timeout`, the waiting write is ENOSPC. Decides only; the file system commits. The
/// mutex is a leaf.
final class SpaceRelief: Sendable {
    private struct State {
        var waiters = 0
        var isStopped = false
        /// Files whose commit was begun to make room.
        var committing: Set<ObjectIdentifier> = []
        /// Files that could not be stored lately, and when to try again.
        var failed: [ObjectIdentifier: (until: Duration, delay: Duration)] = [:]
        /// When files were last looked through.
        var looked: Duration?
        /// The traffic when it was last seen to change, when that was, and when bytes were last seen to reach the store.
        var traffic = StagingTraffic.Count()
        var moved = Duration.zero
        var stored = Duration.zero
    }

    /// The part of their share from which on writers slow down and room is made.
    private static let slowing = 0.75
    /// The part from which on files that are still open are committed.
    private static let urgent = 0.9
    /// How long a write of 1 MiB takes at least when the share is all but full.
    private static let longestPause = Duration.milliseconds(100)
    /// Commits begun to make room at a time.
    private static let width = 4
    private static let delays = (first: Duration.seconds(1), longest: Duration.seconds(30))
    /// A transfer that has read no bytes for so long does not move.
    private static let stillness = Duration.seconds(5)
    /// How often files are looked through.
    private static let interval = Duration.milliseconds(10)

    private let ledger: SpaceLedger
    private let traffic: StagingTraffic
    private let files: ActiveFiles
    private let time: any TimeSource
    private let state = Mutex(State())
    /// The waiting calls, in the order of their arrival: only the first one tries.
    let line = TaskGate(.space)

    init(staging: StagingArea, files: ActiveFiles, time: any TimeSource) {
        (ledger, traffic, self.files, self.time) = (staging.ledger, staging.traffic, files, time)
    }

    /// How long a write of `count` bytes has to wait; nil when it need not.
    func pause(beforeWriting count: Int) -> Duration? {
        // A later write must not take the space that the first in line waits for.
        if hasWaiters { return .zero }
        let pressure = ledger.pressure
        guard pressure > Self.slowing else { return nil }
        let excess = min(1, (pressure - Self.slowing) / (1 - Self.slowing))
        let pause = Self.longestPause * (excess * excess * Double(count) / Double(1 << 20))
        // Too short for a timer.
        return pause < .milliseconds(1) ? nil : pause
    }

    /// Whether room is to be made.
    var isShort: Bool { hasWaiters || ledger.pressure > Self.slowing }

    /// Begins no more commits.
    func stop() { state.withLock { $0.isStopped = true } }

    var hasWaiters: Bool { state.withLock { $0.waiters > 0 } }

    func beginWait() { state.withLock { $0.waiters += 1 } }

    func endWait() { state.withLock { $0.waiters -= 1 } }

    /// Whether a call that waits since `start` need not wait any longer: nothing is left that could make room, or nothing has
    /// reached the store for `timeout`.
    func isHopeless(since start: Duration, timeout: Duration) -> Bool {
        let now = time.uptime()
        let (count, staged) = (traffic.count, ledger.staged)
        return state.withLock { state in
            if state.traffic.stored != count.stored { state.stored = now }
            if state.traffic != count { (state.traffic, state.moved) = (count, now) }
            if staged == 0, state.committing.isEmpty { return true }
            guard now - max(start, state.stored) > timeout else { return false }
            return now - state.moved > Self.stillness
        }
    }

    /// Files to commit now: those that take most space. The caller calls `ended` for each.
    func next() -> [ActiveFile] {
        let pressure = ledger.pressure
        guard pressure > Self.slowing else { return [] }
        let now = time.uptime()
        let looks = state.withLock { state in
            guard !state.isStopped, state.committing.count < Self.width else { return false }
            if let looked = state.looked, now - looked < Self.interval { return false }
            state.looked = now
            return true
        }
        guard looks else { return [] }
        let isUrgent = pressure > Self.urgent || hasWaiters
        let candidates = files.dirty.compactMap { file -> (file: ActiveFile, bytes: Int64)? in
            let draft = file.state.withLock { state in
                // The upload of an acknowledged file has begun already.
                state.life.isAcknowledged || state.upload != nil ? nil : state.life.draft
            }
            guard let draft, draft.staged.reservedBytes > 0, isUrgent || draft.commit.relief == .drop,
                draft.commit.relief != .wait
            else { return nil }
            return (file, draft.staged.reservedBytes)
        }.sorted { $0.bytes > $1.bytes }
        return state.withLock { state in
            var chosen: [ActiveFile] = []
            for (file, _) in candidates where state.committing.count < Self.width {
                let id = ObjectIdentifier(file)
                if let failed = state.failed[id], now < failed.until { continue }
                if state.committing.insert(id).inserted { chosen.append(file) }
            }
            return chosen
        }
    }

    /// To be called when the commit of a file from `next` has ended.
    func ended(_ file: ActiveFile, stored: Bool) {
        let now = time.uptime()
        state.withLock { state in
            let id = ObjectIdentifier(file)
            state.committing.remove(id)
            // The identifier of an object that is gone may belong to another one by now.
            state.failed = state.failed.filter { now < $0.value.until + Self.delays.longest }
            if stored {
                state.failed[id] = nil
            } else {
                let delay = min((state.failed[id]?.delay ?? .zero) * 2, Self.delays.longest)
                let next = max(delay, Self.delays.first)
                state.failed[id] = (now + next, next)
            }
        }
    }
}

extension BucketFileSystem {
    /// The same for a file, which is committed first where `act` needs bytes that only an upload has.
    func waitingForSpace<Value: Sendable>(
        _ file: ActiveFile, givesSpace: Bool = false,
        _ act: @escaping @Sendable () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        try await waitingForSpace(givesSpace: givesSpace) { [self] () async throws(FileSystemError) in
            while true {
                do throws(FileSystemError) { return try await act() } catch {
                    // A file without a name cannot be committed.
                    guard error.needsCommit, !file.state.withLock({ $0.life.isUnlinked }) else { throw error }
                }
                try await commit(file)
            }
        }
    }

    /// Runs `act`, which changes nothing when it lacks local space, until it has some; ENOSPC when none can be made. An
    /// interrupted wait is EINTR, and nothing was done. A call that `givesSpace` does not stand in line for its first try.
    ///
    /// Locks: none.
    func waitingForSpace<Value: Sendable>(
        givesSpace: Bool = false, _ act: @escaping @Sendable () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        if givesSpace || !space.hasWaiters {
            do throws(FileSystemError) { return try await act() } catch {
                guard error.lacksLocalSpace else { throw error }
            }
        }
        let start = time.uptime()
        space.beginWait()
        defer { space.endWait() }
        do { try await space.line.enter(alone: true) } catch { throw .interrupted }
        defer { space.line.leave(alone: true) }
        while true {
            do throws(FileSystemError) { return try await act() } catch {
                guard error.lacksLocalSpace else { throw error }
            }
            // The metadata cache may have exceeded its share.
            if (try? metadata.trim(inNeed: true)) ?? false {
                if Task.isCancelled { throw .interrupted }
                makeRoom()
                continue
            }
            // Space may have been freed since the last try.
            if space.isHopeless(since: start, timeout: policy.spaceTimeout) { return try await act() }
            makeRoom()
            // On a disk that other programs use, they may free space as well.
            do { try await time.sleep(for: .milliseconds(20)) } catch { throw .interrupted }
        }
    }

    /// Drops local bytes that the store has in parts of an upload. A file without such bytes is committed as it is.
    private func giveSpaceBack(_ file: ActiveFile) async throws(FileSystemError) {
        let pass = try await enterNamespace(of: file.ino)
        defer { namespace.leave(pass) }
        let lock = try await lock(file, interrupting: false)
        let (draft, isAcknowledged) = file.state.withLock { ($0.life.draft, $0.life.isAcknowledged) }
        guard let draft, !isAcknowledged else { return }
        do throws(CommitError) { if try draft.commit.dropSent() { return } } catch { throw FileSystemError(error) }
        if draft.commit.relief == .commit { try await commit(lock) }
    }

    /// Begins to store what takes local space, if space is short. Does not wait.
    func makeRoom() {
        if space.isShort { uploads.hurry() }
        for file in space.next() {
            rooms.pool.start { [self] in
                var failure: FileSystemError?
                do throws(FileSystemError) { try await giveSpaceBack(file) } catch { failure = error }
                space.ended(file, stored: failure == nil)
                files.forgetIfIdle(file)
                guard let failure else { return makeRoom() }
                remember(failure, "commit", file.ino)
                note(failure, of: file)
            }
        }
    }
}
