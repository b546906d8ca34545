/// When a write to the journal has to outlive a power cut; the end of the process it outlives at once.
package enum JournalFlush: Sendable {
    /// When another write does.
    case never
    /// With the next that must, or a few writes later: what the next start finds out again if it is lost.
    case soon
    /// Before the call returns.
    case now
}
