import Basics
import Staging

/// The progress of a file's upload: a snapshot for people.
package struct CommitProgress: Sendable, Hashable {
    /// Whether the file is being made an object; parts are also sent before that, while it is written.
    package var isCommitting = false
    /// Bytes that the store has, in whole parts and in those under way; they become an object with the last of them. Fewer
    /// than before when a part that could not be sent is begun again.
    package var sentBytes: Int64 = 0
    /// Parts that the store has acknowledged; a file sent with one request has one part.
    package var sentParts = 0
    package var partsUnderWay = 0
    /// How many parts a file of the present size has; fewer requests where neighbours are copied at the store.
    package var parts = 1

    package init() {}
}

extension FileCommit {
    /// What was sent so far. Any thread; waits for nothing.
    package var progress: CommitProgress {
        let (size, generation) = (staged.size, staged.generation)
        return withShared { shared in
            var progress = CommitProgress()
            let flights = shared.state.flights.filter { !$0.value.isStale }
            progress.isCommitting = shared.isCommitting || shared.attemptsUnderWay > 0
            if let upload = shared.state.upload {
                let underWay = flights.keys.reduce(0) { $0 + (shared.partsSent[$1]?.value ?? 0) }
                progress.sentParts = upload.sent.count
                // What a store adds to a body of its own form counts, too.
                progress.sentBytes = min(size, upload.sent.bytes + underWay)
                progress.partsUnderWay = flights.count
                progress.parts = size > 0 ? upload.layout.index(at: size - 1) + 1 : 1
            } else {
                progress.partsUnderWay = shared.attemptsUnderWay > 0 ? 1 : 0
                progress.sentBytes = min(size, shared.putSent?.value ?? 0)
            }
            if shared.stored == generation { progress.sentBytes = size }
            return progress
        }
    }
}
