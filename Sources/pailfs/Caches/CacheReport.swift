import Basics
import FileSystem
import Journaling

/// The contents of a mount's directories; the names are those of `--json`.
struct CacheReport: Sendable, Codable {
    /// Changes that the bucket does not have.
    struct Unsent: Sendable, Codable {
        /// Files that were acknowledged, or that programs are still writing.
        var files: Int
        /// Files that a crash left unacknowledged.
        var recoverableFiles: Int
        /// Renames and removals that have begun and not ended.
        var jobs: Int
    }

    var directory: String
    /// The directory of the journal and the files that are not stored.
    var state: String
    /// nil when it is not mounted, and no process still stores files of a mount of it.
    var url: String?
    /// nil when it is not mounted.
    var mountpoint: String?
    var pid: Int32?
    /// Bytes on disk of blocks of stored objects; `prune` frees them.
    var cleanBytes: Int64
    /// Bytes on disk of files that were written and may not be in the bucket.
    var stagedBytes: Int64
    /// Bytes on disk of cached names and attributes, of the index of blocks, and of the journal.
    var metadataBytes: Int64
    /// nil, with the reason in `problem`, when it cannot be read.
    var unsent: Unsent?
    var problem: String?

    init(of place: CachePlace) {
        (directory, state) = (place.place.cache, place.place.state)
        cleanBytes = DiskUsage.bytes(in: place.place.blocks)
        stagedBytes = DiskUsage.bytes(in: place.place.staging)
        metadataBytes = place.place.directories.reduce(0) {
            $0 + DiskUsage.bytes(in: $1) { $0 != "blocks" && $0 != "staging" }
        }
        do throws(CommandError) {
            switch try place.holder() {
            case .mount(_, let status):
                (url, mountpoint, pid) = (status.url, status.mountpoint, status.pid)
                unsent = Unsent(of: status)
            case .leaving(let status):
                (url, pid) = (status.url, status.pid)
                unsent = Unsent(of: status)
            case .us(let directories):
                guard Journal.exists(at: directories.place.journal) else {
                    unsent = Unsent(files: 0, recoverableFiles: 0, jobs: 0)
                    break
                }
                do throws(JournalingError) {
                    let journal = try Journal(path: directories.place.journal)
                    defer { journal.close() }
                    let contents = try journal.contents()
                    unsent = Unsent(
                        files: contents.files.values.count(where: \.isAcknowledged),
                        recoverableFiles: contents.files.values.count { !$0.isAcknowledged },
                        jobs: contents.jobs.count)
                } catch { problem = error.description }
            }
        } catch { problem = error.message }
    }

    /// A few lines for a terminal.
    var text: String {
        var lines = [directory]
        if let url, let mountpoint {
            lines.append("  mounted     \(url) on \(mountpoint)\(pid.map { " (process \($0))" } ?? "")")
        } else if let pid {
            lines.append("  mounted     no more; process \(pid) stores what is left")
        } else {
            lines.append("  mounted     \(problem == nil ? "no" : "unknown")")
        }
        lines.append(
            "  clean       \(ByteSize.format(cleanBytes)) of stored objects; \"pailfs cache prune\" frees them")
        if state != directory { lines.append("  state       \(state)") }
        lines.append("  staged      \(ByteSize.format(stagedBytes)) of what was written")
        lines.append("  metadata    \(ByteSize.format(metadataBytes))")
        lines.append("  not stored  \(unsentText)")
        return lines.joined(separator: "\n")
    }

    private var unsentText: String {
        guard let unsent else { return "unknown: \(problem ?? "no answer")" }
        var parts: [String] = []
        if unsent.files > 0 {
            let next = mountpoint == nil && pid == nil ? "; the next mount stores them" : ""
            parts.append(StatusText.count(unsent.files, "file") + next)
        }
        if unsent.jobs > 0 { parts.append("renames and removals under way: \(unsent.jobs)") }
        if unsent.recoverableFiles > 0 {
            parts.append(
                "\(StatusText.count(unsent.recoverableFiles, "file")) kept unstored; \"pailfs recover\" has them")
        }
        return parts.isEmpty ? "nothing" : parts.joined(separator: "; ")
    }
}

extension CacheReport.Unsent {
    /// The counts of the mount's process; nil when its status has none.
    fileprivate init?(of status: MountStatus) {
        guard let activity = status.activity else { return nil }
        self.init(
            files: activity.dirtyFiles, recoverableFiles: activity.recoverableFiles, jobs: activity.jobs.count)
    }
}
