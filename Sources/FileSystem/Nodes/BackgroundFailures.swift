/// Permanent failures of a file's background uploads. As with Linux's errseq_t for pages that could not be written, each
/// descriptor returns a failure once, by its next close or fsync. A descriptor that is opened afterwards returns it if no other
/// one has. A value of `ActiveFile.State`.
/// After a crash: lost; the log has the failures.
struct BackgroundFailures {
    private var latest: FileSystemError?
    private var count = 0
    private var isHeard = true

    /// The count from which on a descriptor that is opened now returns failures.
    var start: Int { isHeard ? count : count - 1 }

    mutating func note(_ error: FileSystemError) {
        (latest, isHeard) = (error, false)
        count += 1
    }

    /// The newest failure, if no descriptor has returned it.
    var unheard: FileSystemError? { isHeard ? nil : latest }

    func hasNews(since heard: Int) -> Bool { heard < count }

    /// Returns the newest failure to a descriptor that has returned `heard` of them, and updates `heard`; nil if there is none
    /// since.
    mutating func hear(_ heard: inout Int) -> FileSystemError? {
        guard heard < count else { return nil }
        (heard, isHeard) = (count, true)
        return latest
    }
}
