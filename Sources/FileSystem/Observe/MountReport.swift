/// The state of a mount, for `pailfs status`: a snapshot. The names are those of the JSON form.
///
/// Text is for people: bytes of names that are not UTF-8 show as replacement characters.
package struct MountReport: Sendable, Codable {
    /// A file with changes that are not in the bucket.
    package struct File: Sendable, Codable {
        package enum State: String, Sendable, Codable {
            /// Being written, and not acknowledged.
            case writing
            /// Acknowledged, and waiting for its upload.
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
        /// Since when the file waits, or when its first change was made, in seconds since 1970.
        package var since: Int64
        package var lastError: String?
    }

    /// A job of more than one request that has begun and not ended.
    package struct Job: Sendable, Codable {
        /// `rename`, `tree` (the rename of a directory), `moved` and `removals` (its old names go), `removal` or `headers`.
        package var kind: String
        package var from: String
        package var to: String?
        package var objects: Int
    }

    /// The oldest first, at most as many as the caller asked for.
    package var files: [File] = []
    /// The number of files with changes that are not in the bucket, and the disk space of these changes in bytes.
    package var dirtyFiles = 0
    package var dirtyBytes: Int64 = 0
    /// How many of them are being uploaded, wait for their upload, and failed at the last try. Not in the JSON.
    package var uploadingFiles = 0
    package var waitingFiles = 0
    package var failedFiles = 0
    package var openFiles = 0
    package var openHandles = 0
    /// Open files that the kernel reads from the block cache by itself.
    package var backedFiles = 0
    package var jobs: [Job] = []
    /// Files that a crash left unacknowledged: `pailfs recover` lists them.
    package var recoverableFiles = 0
    package var blockBytes: Int64 = 0
    package var memoryBytes: Int64 = 0
    package var isDiskFailing = false
    /// Reads answered from local data, reads that had to wait, and the bytes of both.
    package var readHits = 0
    package var readMisses = 0
    package var readBytes = 0

    private enum CodingKeys: String, CodingKey {
        case files, dirtyFiles, dirtyBytes, openFiles, openHandles, backedFiles, jobs, recoverableFiles, blockBytes
        case memoryBytes, isDiskFailing, readHits, readMisses, readBytes
    }

    package init() {}
}
