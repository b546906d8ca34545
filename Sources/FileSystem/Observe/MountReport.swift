/// What a mount is about, for `pailfs status`: a snapshot, whose names are those of its JSON.
///
/// Text is for people: bytes of names that are not UTF-8 show as replacement characters.
package struct MountReport: Sendable, Codable {
    /// A file that the bucket does not have as programs see it.
    package struct File: Sendable, Codable {
        package enum State: String, Sendable, Codable {
            /// Being written; nobody was told that it is safe.
            case writing
            /// Acknowledged, and on the list.
            case waiting
            case uploading
        }

        /// In the mount, without a slash in front.
        package var path: String
        /// Below the mount's prefix.
        package var key: String
        package var state: State
        package var isOpen: Bool
        /// Bytes as programs see the file.
        package var size: Int64
        /// Bytes of local disk that its changes take.
        package var stagedBytes: Int64
        package var sentBytes: Int64
        package var sentParts: Int
        package var partsUnderWay: Int
        package var parts: Int
        /// Seconds since 1970: since when it waits, or when its first change was.
        package var since: Int64
        package var lastError: String?
    }

    /// Something of more than one request that has begun and not ended.
    package struct Job: Sendable, Codable {
        /// `rename`, `tree` (the rename of a directory), `moved` and `removals` (its old names go), `removal` or `headers`.
        package var kind: String
        package var from: String
        package var to: String?
        package var objects: Int
    }

    /// The oldest first, at most as many as were asked for.
    package var files: [File] = []
    /// How many files there are that the bucket does not have, and the bytes of disk their changes take.
    package var dirtyFiles = 0
    package var dirtyBytes: Int64 = 0
    /// How many of them are on their way to the store, wait for that, and could not be stored at the last try. Not in the JSON.
    package var uploadingFiles = 0
    package var waitingFiles = 0
    package var failedFiles = 0
    package var openFiles = 0
    package var openHandles = 0
    /// Open files that the kernel reads from the block cache by itself.
    package var backedFiles = 0
    package var jobs: [Job] = []
    /// Files that a crash left unacknowledged: `pailfs recover` has them.
    package var recoverableFiles = 0
    package var blockBytes: Int64 = 0
    package var memoryBytes: Int64 = 0
    package var isDiskFailing = false
    /// Reads of programs that met everything here, those that had to wait, and the bytes of both.
    package var readHits = 0
    package var readMisses = 0
    package var readBytes = 0

    private enum CodingKeys: String, CodingKey {
        case files, dirtyFiles, dirtyBytes, openFiles, openHandles, backedFiles, jobs, recoverableFiles, blockBytes
        case memoryBytes, isDiskFailing, readHits, readMisses, readBytes
    }

    package init() {}
}
