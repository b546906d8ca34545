import Basics
import FileSystem

/// The status of a mount as people read it.
enum StatusText {
    /// Files that are named; the rest are counted.
    private static let mostFiles = 20

    static func lines(_ mount: MountStatus) -> String {
        var lines = ["\(mount.url) on \(mount.mountpoint)"]
        guard mount.state == .serving, let activity = mount.activity else {
            lines.append(row("process", "gone, or it does not answer; see the log of the mount"))
            return lines.joined(separator: "\n")
        }
        lines.append(row("process", process(mount)))
        if let changes = mount.changes { lines.append(row("changed", changes.joined(separator: ", "))) }
        lines.append(row("files", files(activity)))
        lines += activity.files.prefix(mostFiles).map { "    " + file($0) }
        let rest = activity.dirtyFiles - min(activity.files.count, mostFiles)
        if rest > 0 { lines.append("    and \(rest) more") }
        lines += activity.jobs.map { row("under way", job($0)) }
        if activity.recoverableFiles > 0 {
            lines.append(
                row("left by a crash", "\(count(activity.recoverableFiles, "file")); \"pailfs recover\" has them"))
        }
        if let cache = mount.cache { lines.append(row("cache", text(cache, activity))) }
        lines.append(contentsOf: requests(mount.requests ?? [:]))
        return lines.joined(separator: "\n")
    }

    private static func row(_ name: String, _ text: String) -> String {
        "  " + Output.padded(name, to: 12, gap: 1) + text
    }

    private static func process(_ mount: MountStatus) -> String {
        var text = mount.pid.map { "\($0)" } ?? "unknown"
        if let since = mount.since { text += ", since \(since)" }
        if mount.readOnly == true { text += ", read-only" }
        if mount.durable == "local" { text += ", durable=local" }
        return text
    }

    private static func files(_ activity: MountReport) -> String {
        let open = "\(count(activity.openFiles, "file")) open"
        guard activity.dirtyFiles > 0 else { return "all stored, \(open)" }
        return
            "\(activity.dirtyFiles) not stored, with \(ByteSize.format(activity.dirtyBytes)) of changes here; \(open)"
    }

    private static func file(_ file: MountReport.File) -> String {
        var text = "\(file.path): \(ByteSize.format(file.size)), "
        switch file.state {
        case .writing: text += file.isOpen ? "being written" : "changed"
        case .waiting: text += "waiting"
        case .uploading: text += "uploading"
        }
        if file.parts > 1 {
            let percent = file.size > 0 ? min(100, file.sentBytes * 100 / file.size) : 0
            text += ", \(percent)% sent (part \(file.sentParts) of \(file.parts), \(file.partsUnderWay) under way)"
        }
        text += ", for \(age(since: file.since))"
        if let error = file.lastError { text += "; \(error)" }
        return text
    }

    private static func job(_ job: MountReport.Job) -> String {
        switch job.kind {
        case "removal": "removal of \(job.from)"
        case "removals": "removal of what was renamed below \(job.from) (\(count(job.objects, "object")))"
        case "tree": "rename of \(job.from) to \(job.to ?? "") (\(count(job.objects, "object")))"
        default: "rename of \(job.from) to \(job.to ?? "")"
        }
    }

    private static func text(_ cache: MountStatus.Cache, _ activity: MountReport) -> String {
        var text = "\(ByteSize.format(cache.usedBytes)) of \(ByteSize.format(cache.limitBytes)) on disk"
        text += ", \(ByteSize.format(activity.blockBytes)) of it for reading; in \(cache.directory)"
        if activity.isDiskFailing {
            text += "; the disk is full or fails, \(ByteSize.format(activity.memoryBytes)) are in memory instead"
        }
        return text
    }

    private static func requests(_ requests: [String: MountStatus.Requests]) -> [String] {
        requests.sorted { $0.key < $1.key }.enumerated().map { index, entry in
            let (name, figures) = entry
            var text = "\(name) \(figures.requests)"
            if figures.failures > 0 { text += ", \(figures.failures) failed" }
            if figures.retries > 0 { text += ", \(figures.retries) sent again" }
            if figures.inFlight > 0 { text += ", \(figures.inFlight) under way" }
            if let median = figures.medianMilliseconds, let p99 = figures.p99Milliseconds {
                text += "; \(rounded(median)) ms, 99% within \(rounded(p99)) ms"
            }
            return row(index == 0 ? "requests" : "", text)
        }
    }

    static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

    private static func age(since seconds: Int64) -> String {
        DurationText.format(.seconds(max(0, SystemTime().now().seconds - seconds)))
    }

    private static func rounded(_ value: Double) -> String {
        value >= 10 ? "\(Int(value.rounded()))" : "\((value * 10).rounded() / 10)"
    }
}
