import Basics
import Commits
import Metadata
import Staging
import Synchronization

/// The end of a mount: what is written goes to the store, as long as the store takes it.
///
/// A store that is silent does not hold the process: what is not stored then is in the journal, and the next process
/// continues with it, as after a crash.
extension BucketFileSystem {
    /// Called after the kernel's last request. Tries each file and job once more, until one has shown that the store is away, and
    /// returns what is not stored. Returns before all have ended if the store answered nothing and took no byte for
    /// `endingPatience`, or at `end`; the process must end then.
    package func shutDown(by end: @escaping @Sendable () -> Duration?) async -> [UnstoredFile] {
        uploads.stop()
        space.stop()
        let ending = Ending()
        let silence = rooms.pool.start { [self] in await giveUp(ending, by: end) }
        rooms.pool.start { [self] in ending.set(await storeEverything()) }
        let unstored = await ending.wait()
        silence.cancel()
        return unstored
    }

    /// The process is to be gone within two timeouts. One request takes up to one and a quarter.
    private var endingPatience: Duration { policy.spaceTimeout * 7 / 4 }

    /// How often a file that lacked a descriptor is tried again, with a pause of a tenth of a second before each try.
    private static let mostRepetitions = 20

    /// Counters that change while the store answers or takes bytes.
    private var progress: Progress {
        let traffic = rooms.staging.traffic.count
        return Progress(answers: watch.answers, stored: traffic.stored, read: traffic.read)
    }

    private func storeEverything() async -> [UnstoredFile] {
        await watch.end()
        @Sendable func attempt(_ file: ActiveFile) async throws(FileSystemError) {
            let began = time.uptime()
            // An upload that is under way counts as the try if the store has been silent for a while.
            if let upload = file.state.withLock({ $0.upload }), let error = await upload.value, watch.isAway,
                time.uptime() - began > policy.spaceTimeout / 4
            {
                throw error
            }
            try await commitWaitingForSpace(file)
            files.forgetIfIdle(file)
        }
        var failures = await each(of: files.dirty.map(\.ino), attempt)
        // One file at a time needs fewer descriptors, and the other files give theirs back.
        for _ in 0..<Self.mostRepetitions where failures.contains(where: { $0.error.kind == .tooManyFiles }) {
            try? await time.sleep(for: .milliseconds(100))
            let lacking = failures.filter { $0.error.kind == .tooManyFiles }.map(\.file)
            failures.removeAll { $0.error.kind == .tooManyFiles }
            for file in lacking { failures += await each(of: [file.ino], attempt) }
        }
        // No handle is open any more: a process that died may have received a last close, and not written it down.
        for file in pendingDeletions.all { await carryOutDeletion(of: file, mountHasEnded: true) }
        formers.removeAll()
        let jobs = await finishJobs()
        try? metadata.endInOrder()
        return (unstored(failures) + jobs + recoverableFiles.unstored).sorted { $0.path < $1.path }
    }

    private func giveUp(_ ending: Ending, by end: @Sendable () -> Duration?) async {
        var reason = "the store does not answer"
        var (seen, since) = (progress, time.uptime())
        while true {
            do { try await time.sleep(for: .milliseconds(50)) } catch { return }
            let (current, now) = (progress, time.uptime())
            if current != seen { (seen, since) = (current, now) }
            if now - since >= endingPatience { break }
            if let end = end(), now >= end {
                reason = "the time to store it was over"
                break
            }
        }
        let dirty = files.dirty.map { UnstoredFile(path: path(of: $0.ino), reason: reason) }
        ending.set((dirty + jobs.unfinished.map(unstored) + recoverableFiles.unstored).sorted { $0.path < $1.path })
    }

    private struct Progress: Equatable {
        let answers: Int
        let stored: Int
        let read: Int64
    }

    /// The first result counts. Locked by its own mutex.
    private final class Ending: Sendable {
        private let result = Mutex<[UnstoredFile]?>(nil)
        private let isSet = ChangeSignal()

        func set(_ files: [UnstoredFile]) {
            result.withLock { if $0 == nil { $0 = files } }
            isSet.change()
        }

        func wait() async -> [UnstoredFile] {
            while true {
                let seen = isSet.changes
                if let files = result.withLock({ $0 }) { return files }
                await isSet.wait(after: seen, cancellable: false)
            }
        }
    }
}
