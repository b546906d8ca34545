import Basics
import Staging

/// The progress of a file's upload: a snapshot for people.
package struct CommitProgress: Sendable, Hashable {
    /// Whether the file is being made an object; parts are also sent before that, while it is written.
    package var isCommitting = false
    /// Bytes that the store has acknowledged; they become an object with the last of them.
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
        let size = staged.size
        return withShared { shared in
            var progress = CommitProgress()
            let flights = shared.state.flights.values.filter { !$0.isStale }
            progress.isCommitting = shared.isCommitting || shared.attemptsUnderWay > 0
            if let upload = shared.state.upload {
                (progress.sentParts, progress.sentBytes) = (upload.sent.count, upload.sent.bytes)
                progress.partsUnderWay = flights.count
                progress.parts = size > 0 ? upload.layout.index(at: size - 1) + 1 : 1
            } else {
                progress.partsUnderWay = shared.attemptsUnderWay > 0 ? 1 : 0
            }
            return progress
        }
    }
}
