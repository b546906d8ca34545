/// What went wrong for good with a file while nobody waited for it, and who has heard of it: as Linux does it for pages that
/// could not be written (errseq_t), each descriptor is told once, by its next close or fsync. One that is opened afterwards hears
/// of it where nobody else has. A value of `ActiveFile.State`; lost with the process, whose log has it.
struct BackgroundFailures {
    private var latest: FileSystemError?
    private var count = 0
    private var isHeard = true

    /// Where a descriptor begins to listen that is opened now.
    var start: Int { isHeard ? count : count - 1 }

    mutating func note(_ error: FileSystemError) {
        (latest, isHeard) = (error, false)
        count += 1
    }

    /// What nobody has heard of.
    var unheard: FileSystemError? { isHeard ? nil : latest }

    func hasNews(since heard: Int) -> Bool { heard < count }

    /// What is new to whoever has `heard` so far.
    mutating func hear(_ heard: inout Int) -> FileSystemError? {
        guard heard < count else { return nil }
        (heard, isHeard) = (count, true)
        return latest
    }
}
