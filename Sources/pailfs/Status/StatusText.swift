import Basics
import FileSystem
import FuseBridge

/// The status of a mount as text for a terminal.
struct StatusText {
    /// Most files that are named; the rest are only counted.
    private static let mostFiles = 20
    /// Most uploads with a bar: the biggest.
    private static let mostBars = 5
    /// Columns of a row before its text.
    private static let margin = 14

    let style: StatusStyle
    /// Seconds since 1970.
    let now: Int64

    init(_ style: StatusStyle, now: Int64 = SystemTime().now().seconds) { (self.style, self.now) = (style, now) }

    /// The lines of a mount. With `rates`, a live view shows them beside the sums.
    func lines(_ mount: MountStatus, rates: StatusRates? = nil) -> [String] {
        var lines = ["\(mount.url) on \(mount.mountpoint)"]
        guard mount.state == .serving, let activity = mount.activity else {
            lines.append(row("process", "does not answer, or cannot be found from here; see the log of the mount"))
            return lines.map(style.line)
        }
        lines.append(row("process", process(mount)))
        if let changes = mount.changes { lines.append(row("changed", changes.joined(separator: ", "))) }
        lines += (mount.departures ?? []).map { row("server", $0) }
        if let rates { lines.append(row("rates", text(rates))) }
        lines.append(row("files", files(activity, mount.queue)))
        lines += fileLines(activity)
        lines += activity.jobs.map { row("under way", job($0)) }
        if activity.recoverableFiles > 0 {
            lines.append(
                row(
                    "kept", "\(Self.count(activity.recoverableFiles, "file")); \"pailfs recover\" has them"))
        }
        lines += space(mount, activity)
        if let traffic = mount.traffic {
            let sums =
                "sent \(ByteSize.format(traffic.sentBytes)), received \(ByteSize.format(traffic.receivedBytes))"
            let waiting = mount.queue?.waitingRequests ?? 0
            lines.append(row("traffic", sums + (waiting > 0 ? "; \(Self.count(waiting, "request")) waiting" : "")))
        }
        if let limits = mount.limits { lines.append(row("limits", text(limits))) }
        lines += requests(mount.requests ?? [:], rates)
        if let cost = mount.cost { lines.append(row("cost", text(cost))) }
        return lines.map(style.line)
    }

    private func row(_ name: String, _ text: String) -> String {
        "  " + Output.padded(name, to: Self.margin - 2, gap: 1) + text
    }

    private func process(_ mount: MountStatus) -> String {
        var text = mount.pid.map { "\($0)" } ?? "unknown"
        if let since = mount.since { text += ", since \(since)" }
        if HandedConnection.isName(mount.mountpoint) { text += ", mounted by another process" }
        if mount.readOnly == true { text += ", read-only" }
        if mount.durable == "local" { text += ", durable=local" }
        return text
    }

    // MARK: files

    private func files(_ activity: MountReport, _ queue: MountStatus.Queue?) -> String {
        let open = "\(Self.count(activity.openFiles, "file")) open"
        guard activity.dirtyFiles > 0 else { return "all stored, \(open)" }
        var text = "\(activity.dirtyFiles) not stored"
        if let queue { text += " (\(queue.uploadingFiles) uploading, \(queue.waitingFiles) waiting)" }
        return text + "; \(open)"
    }

    private func fileLines(_ activity: MountReport) -> [String] {
        let shown = activity.files.prefix(Self.mostFiles)
        let uploads = activity.files.filter { $0.state == .uploading && $0.size > 0 }
        let big = uploads.sorted { ($0.size, $1.path) > ($1.size, $0.path) }.prefix(Self.mostBars)
        let rest = shown.filter { file in !big.contains { $0.path == file.path } }
        var lines = big.map { row("", "\(style.bar($0.sentBytes, of: $0.size))  \(file($0))") }
        lines += rest.map { row("", file($0)) }
        let more = activity.dirtyFiles - lines.count
        if more > 0 { lines.append(row("", "and \(more) more")) }
        return lines
    }

    private func file(_ file: MountReport.File) -> String {
        // The figures that change come first: a narrow terminal cuts the rest.
        var text =
            file.parts > 1
            ? "\(ByteSize.format(file.sentBytes)) of \(ByteSize.format(file.size)), "
                + "part \(file.sentParts) of \(file.parts): \(style.path(file.path)), "
            : "\(style.path(file.path)): \(ByteSize.format(file.size)), "
        switch file.state {
        case .writing: text += file.isOpen ? "being written" : "changed"
        case .waiting: text += "waiting"
        case .uploading: text += "uploading"
        }
        if file.parts > 1 { text += ", \(file.partsUnderWay) under way" }
        text += ", for \(age(since: file.since))"
        if let error = file.lastError { text += "; \(error)" }
        return text
    }

    private func job(_ job: MountReport.Job) -> String {
        switch job.kind {
        case "removal": "removal of \(job.from)"
        case "headers": "new attributes of \(job.from)"
        case "removals", "moved": "removal of what was renamed below \(job.from) (\(Self.count(job.objects, "object")))"
        case "tree": "rename of \(job.from) to \(job.to ?? "") (\(Self.count(job.objects, "object")))"
        default: "rename of \(job.from) to \(job.to ?? "")"
        }
    }

    // MARK: space

    private func space(_ mount: MountStatus, _ activity: MountReport) -> [String] {
        var lines: [String] = []
        func add(_ name: String, _ part: Int64, of whole: Int64, _ text: String) {
            let sizes = "\(ByteSize.format(part)) of \(ByteSize.format(whole))"
            lines.append(row(name, "\(style.bar(part, of: whole))  \(sizes) \(text)"))
        }
        if let cache = mount.cache {
            if activity.dirtyBytes > 0 {
                add("staged", activity.dirtyBytes, of: cache.limitBytes, "are changes that the store lacks")
            }
            add("cache", cache.usedBytes, of: cache.limitBytes, text(cache, activity))
        }
        if let memory = mount.memory { add("memory", memory.usedBytes, of: memory.limitBytes, "for bytes of files") }
        return lines
    }

    private func text(_ cache: MountStatus.Cache, _ activity: MountReport) -> String {
        var text = "on disk, \(ByteSize.format(activity.blockBytes)) of it for reading; in \(cache.directory)"
        if activity.isDiskFailing {
            text += "; the disk is full or fails, \(ByteSize.format(activity.memoryBytes)) are in memory instead"
        }
        return text
    }

    // MARK: requests

    private func text(_ rates: StatusRates) -> String {
        func bytes(_ rate: Double) -> String { ByteSize.format(Int64(rate.rounded())) + "/s" }
        let all = rates.requests.values.reduce(0, +)
        return "sent \(bytes(rates.sent)), received \(bytes(rates.received)), \(rounded(all)) requests/s"
    }

    private func text(_ limits: MountStatus.Limits) -> String {
        let parts = [
            limits.uploadBytes.map { "upload \(ByteSize.format($0))/s" },
            limits.downloadBytes.map { "download \(ByteSize.format($0))/s" },
            limits.requests.map { "\($0) requests/s" },
        ]
        return parts.compactMap(\.self).joined(separator: ", ")
    }

    private func requests(_ requests: [String: MountStatus.Requests], _ rates: StatusRates?) -> [String] {
        requests.sorted { $0.key < $1.key }.enumerated().map { index, entry in
            let (name, figures) = entry
            var text = "\(Self.words[name] ?? name) \(figures.requests)"
            if let rate = rates?.requests[name] { text += ", \(rounded(rate))/s" }
            if figures.failures > 0 { text += ", \(figures.failures) failed" }
            if figures.retries > 0 { text += ", \(figures.retries) sent again" }
            if figures.inFlight > 0 { text += ", \(figures.inFlight) under way" }
            if let median = figures.medianMilliseconds, let p99 = figures.p99Milliseconds {
                text += "; \(rounded(median)) ms, 99% within \(rounded(p99)) ms"
            }
            return row(index == 0 ? "requests" : "", text)
        }
    }

    private func text(_ cost: MountStatus.Cost) -> String {
        "\(Self.amount(cost.amount)) \(cost.currency) at list prices, without traffic and storage"
            + " (\(cost.region), \(cost.month))"
    }

    /// Operations as HTTP requests, whose methods differ a little between the protocols.
    private static let words = [
        "list": "GET list", "head": "HEAD", "get": "GET", "put": "PUT", "copy": "PUT copy", "delete": "DELETE",
        "deleteMany": "POST delete", "createUpload": "POST upload", "uploadPart": "PUT part",
        "uploadPartCopy": "PUT part copy", "listParts": "GET parts", "listUploads": "GET uploads",
        "completeUpload": "POST complete", "abortUpload": "DELETE upload", "updateMetadata": "PUT metadata",
        "checkAccess": "GET check", "accessControl": "GET acl", "setAccessControl": "PUT acl", "tags": "GET tags",
        "setTags": "PUT tags", "setStorageClass": "PUT class", "restore": "POST restore", "move": "POST move",
        "putSymlink": "PUT link", "symlinkTarget": "GET link", "usage": "GET usage", "preflight": "OPTIONS",
        "listBuckets": "GET buckets",
    ]

    // MARK: numbers

    /// An estimate, to the ten-thousandth: `about 0.0123`.
    static func amount(_ amount: Double) -> String {
        guard amount > 0 else { return "0" }
        let tenThousandths = (amount * 10_000).rounded()
        guard tenThousandths >= 1 else { return "less than 0.0001" }
        guard tenThousandths < 1e15 else { return "about \(amount)" }
        let (whole, rest) = Int64(tenThousandths).quotientAndRemainder(dividingBy: 10_000)
        let digits = "\(rest)"
        return "about \(whole).\(String(repeating: "0", count: 4 - digits.utf8.count))\(digits)"
    }

    static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

    private func age(since seconds: Int64) -> String { DurationText.format(.seconds(max(0, now - seconds))) }

    private func rounded(_ value: Double) -> String {
        if value == 0 { return "0" }
        return value >= 10 ? "\(Int(value.rounded()))" : "\((value * 10).rounded() / 10)"
    }
}
