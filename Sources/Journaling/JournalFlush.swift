/// When a write to the journal has to survive a power cut; it survives the end of the process at once.
package enum JournalFlush: Sendable {
    /// With the flush of another write.
    case never
    /// With the next flush, or a few writes later: for facts that the next start can find out again.
    case soon
    /// Before the call returns.
    case now
}
